import { credentialsExpireAt } from "../../../auth/credential-life.ts";
import { withIssuer } from "../../../auth/oauth2/token-issuer.ts";
import { bytesFor } from "../../../base/message-bytes.ts";
import type { World } from "../../../base/world.ts";
import type { ConnectionDescription, RefreshRecord } from "../../../gen/latchkey/stored/v1/stored_pb.ts";
import {
  type Connection,
  Connection_State,
  type ConnectionImport,
  type ConnectionRef,
} from "../../../gen/latchkey/v1/connection_pb.ts";
import { CredentialsSchema } from "../../../gen/latchkey/v1/credentials_pb.ts";
import type { Change } from "../../../store/contract.ts";
import type { StoredRecordOf } from "../../../store/records.ts";
import { credentialsKey } from "../../connections/connection-collections.ts";
import type { ConnectionHealth } from "../../connections/health/health.ts";
import { scopesOfImport } from "../../connections/import-scopes.ts";
import type { Numbers } from "../../connections/numbers.ts";
import { timestampNow } from "../../stored/timestamp-now.ts";
import { withShownTokens } from "../../tokens/further-tokens.ts";
import type { AuthorizedImport } from "./authorized-import.ts";
import type { ImportDescriptions } from "./import-descriptions.ts";
import { importedTags, kindName } from "./import-rules.ts";
import type { ImportTarget } from "./import-state.ts";

/** A valid item, with everything that it is merged with. */
export interface MergeRequest {
  readonly item: ConnectionImport;
  readonly ref: ConnectionRef;
  readonly runHooks: boolean;
  readonly target: ImportTarget;
  readonly before: StoredRecordOf<Connection> | undefined;
  /** The base of the merge: the stored connection, or the result of an earlier item of the batch. */
  readonly base: Connection | undefined;
  readonly record?: StoredRecordOf<RefreshRecord> | undefined;
  readonly description?: StoredRecordOf<ConnectionDescription> | undefined;
  readonly authorized: AuthorizedImport | undefined;
}

/** A connection that is ready to be stored. */
export interface PendingImport {
  readonly ref: ConnectionRef;
  readonly before: StoredRecordOf<Connection> | undefined;
  readonly after: Connection;
  /** Includes the changes of its health. */
  readonly changes: readonly Change[];
  readonly record: StoredRecordOf<RefreshRecord> | undefined;
  readonly target: ImportTarget;
  readonly created: boolean;
  readonly runHooks: boolean;
}

interface ImportMergeOptions {
  readonly numbers: Numbers;
  readonly health: ConnectionHealth;
  readonly importDescriptions: ImportDescriptions;
  readonly world: World;
}

const bytesOfCredentials = bytesFor(CredentialsSchema);

/** Returns a promise only for a new connection whose number has to be reserved first. */
export type MergeImport = (request: MergeRequest) => PendingImport | Promise<PendingImport>;

/** Merges items into existing connections: credentials replace the former, values that an item does not name stay. */
export function createMergeImport({ numbers, health, importDescriptions, world }: ImportMergeOptions): MergeImport {
  function merged({ item, ref, target, base, authorized }: MergeRequest, number: number): Connection {
    const { credentials, metadata, connectionConfig, endUser, webhookUrlOverride } = item;
    if (credentials === undefined) throw withoutCredentials();
    const now = timestampNow(world.now());
    const user = endUser ?? base?.endUser;
    const expiresAt = credentialsExpireAt(credentials);
    return {
      $typeName: "latchkey.v1.Connection",
      ref,
      number,
      provider: target.provider.name,
      metadata: metadata ?? base?.metadata ?? {},
      connectionConfig: connectionConfig ?? base?.connectionConfig ?? {},
      tags: importedTags(item, base),
      endUser: user,
      webhookUrlOverride: webhookUrlOverride ?? base?.webhookUrlOverride ?? "",
      errors: base?.errors ?? [],
      grantedScopes: [...(authorized?.grantedScopes ?? scopesOfImport(credentials, target.provider))],
      missingScopes: [...(authorized?.missingScopes ?? [])],
      credentialsKind: kindName(credentials.kind.case),
      credentialsExpireAt: expiresAt,
      createdAt: base?.createdAt ?? now,
      updatedAt: now,
      state: Connection_State.UNSPECIFIED,
      stateReason: "",
      revision: 0n,
      choicesNeeded: [],
    };
  }

  function mergeNumbered(request: MergeRequest, number: number): PendingImport {
    const { item, ref, runHooks, target, before, base, record, authorized } = request;
    if (item.credentials === undefined) throw withoutCredentials();
    const shown = withShownTokens(item.credentials, target.provider, world.now());
    const credentials = withIssuer(shown, target.provider);
    const key = credentialsKey(ref.environment, ref.integration, ref.id);
    const sealed: Change = { key, value: bytesOfCredentials(credentials), secret: true };
    // New credentials end all problems of the former ones.
    const { connection: after, changes } = health.noteReplacement({
      ...target,
      ref,
      credentials,
      connection: merged(request, number),
      before,
      record,
      grantedAtMs: authorized === undefined ? undefined : world.now(),
    });
    const { provider } = target;
    const all = [...changes, sealed, ...importDescriptions.changes({ ...request, provider }, after)];
    return { ref, before, after, changes: all, record, target, created: base === undefined, runHooks };
  }

  return (request) => {
    const number = request.base?.number ?? numbers.next();
    return typeof number === "number"
      ? mergeNumbered(request, number)
      : number.then((reserved) => mergeNumbered(request, reserved));
  };
}

const withoutCredentials = () => new Error("validation let an item without credentials through");
