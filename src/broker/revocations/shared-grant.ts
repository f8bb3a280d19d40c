import { sharedAccount } from "../../core/shared-account.ts";
import type { RevocationTask } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import type { Connection } from "../../gen/latchkey/v1/connection_pb.ts";
import type { Provider } from "../../gen/latchkey/v1/provider_pb.ts";
import type { PositionedRecord } from "../../store/records.ts";
import type { ConnectionCollections } from "../connections/connection-collections.ts";
import type { SetupCollections } from "../setup/setup-collections.ts";
import { clientOf } from "./grant-tokens.ts";
import { endUserIdOf } from "./new-revocations.ts";

/**
 * Returns why a grant must be kept, for providers that know one grant for each account and OAuth client: another
 * connection uses it (`shared`), or may (`account_unknown`). Undefined: it may be revoked. Asked before each attempt: the
 * end user may have connected again while the provider was away.
 */
export type FindGrantUse = (
  task: RevocationTask,
  provider: Provider,
) => Promise<"shared" | "account_unknown" | undefined>;

interface SharedGrantOptions extends Pick<SetupCollections & ConnectionCollections, "connections" | "integrations"> {
  /** Returns the account whose grant a connection shares, by its own provider. */
  readonly accountOf: (connection: Connection) => string | undefined;
}

const pageSize = 200;
/** Connections of one end user that are compared. */
const mostOfEndUser = 1_000;

export function createFindGrantUse({ connections, integrations, accountOf }: SharedGrantOptions): FindGrantUse {
  /** Returns the integrations, of any environment, with this OAuth client. */
  async function integrationsOf(clientId: string): Promise<readonly (readonly [string, string])[]> {
    const found: (readonly [string, string])[] = [];
    for (let after: string | undefined; ; ) {
      const page = await integrations.page({ under: [], after, limit: pageSize });
      for (const { value } of page) {
        if (value.oauth?.clientId === clientId) found.push([value.environment, value.key]);
      }
      const last = page.at(-1);
      if (last === undefined || page.length < pageSize) return found;
      after = last.position;
    }
  }

  async function ofEndUser(environment: string, id: string): Promise<readonly PositionedRecord<Connection>[]> {
    return id === ""
      ? []
      : connections.pageBy("tag", { under: [environment, "end_user_id", id], limit: mostOfEndUser });
  }

  return async (task, { revocation }) => {
    const { connection } = task;
    const { id: clientId } = clientOf(task);
    const { ref } = connection ?? {};
    if (revocation?.grant !== "account" || connection === undefined || ref === undefined || clientId === "") {
      return undefined;
    }
    const ours = await integrationsOf(clientId);
    const account = sharedAccount(connection, revocation);
    // A further token belongs to one user, so only the same end user's connections share it.
    const isOfUser = task.furtherToken !== "";
    for (const [environment, key] of account === undefined || isOfUser ? [] : ours) {
      const [found] = await connections.pageBy("grant", { under: [environment, key, account ?? ""], limit: 1 });
      if (found !== undefined) return "shared";
    }
    const endUserId = endUserIdOf(connection);
    const others = await ofEndUser(ref.environment, endUserId);
    const isSame = others.some(({ value }) => {
      const isOurs = ours.some(
        ([environment, key]) => environment === value.ref?.environment && key === value.ref.integration,
      );
      // The same end user may have connected two accounts. The index lacks connections that an older version stored.
      const theirs = accountOf(value);
      return isOurs && (account === undefined || theirs === undefined || theirs === account);
    });
    if (isSame) return "shared";
    if (account !== undefined || endUserId !== "" || isOfUser) return undefined;
    for (const [environment, key] of ours) {
      const [found] = await connections.page({ under: [environment, key], limit: 1 });
      if (found !== undefined) return "account_unknown";
    }
    return undefined;
  };
}
