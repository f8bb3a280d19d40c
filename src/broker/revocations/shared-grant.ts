import { accountOf } from "../../core/notifications/email-hash.ts";
import type { RevocationTask } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import type { Connection } from "../../gen/latchkey/v1/connection_pb.ts";
import type { Provider } from "../../gen/latchkey/v1/provider_pb.ts";
import type { PositionedRecord } from "../../store/records.ts";
import type { ConnectionCollections } from "../connections/connection-collections.ts";
import type { SetupCollections } from "../setup/setup-collections.ts";
import { clientOf } from "./grant-tokens.ts";
import { endUserIdOf } from "./new-revocations.ts";

/**
 * Whether another connection uses the same grant, for providers that know one grant for each account and OAuth client.
 * Asked before each attempt: the end user may have connected again while the provider was away.
 */
export type IsGrantShared = (task: RevocationTask, provider: Provider) => Promise<boolean>;

type SharedGrantCollections = Pick<SetupCollections & ConnectionCollections, "connections" | "integrations">;

const pageSize = 200;
/** Connections of one end user that are compared. */
const mostOfEndUser = 1_000;

export function createIsGrantShared({ connections, integrations }: SharedGrantCollections): IsGrantShared {
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
      return false;
    }
    const shared = await integrationsOf(clientId);
    const account = accountOf(connection.connectionConfig);
    if (account !== undefined) {
      for (const [environment, key] of shared) {
        const [found] = await connections.pageBy("account", { under: [environment, key, account], limit: 1 });
        if (found !== undefined) return true;
      }
    }
    const others = await ofEndUser(ref.environment, endUserIdOf(connection));
    return others.some(({ value: { ref: other, connectionConfig } }) => {
      if (!shared.some(([environment, key]) => environment === other?.environment && key === other.integration)) {
        return false;
      }
      // The same end user may have connected two accounts.
      const theirs = accountOf(connectionConfig);
      return account === undefined || theirs === undefined || theirs === account;
    });
  };
}
