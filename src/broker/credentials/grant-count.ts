import type { World } from "../../base/world.ts";
import { maxRefreshTokens, refreshTokensUsedUp } from "../../core/integration-warnings.ts";
import { accountOf } from "../../core/notifications/email-hash.ts";
import { type Connection, Connection_State } from "../../gen/latchkey/v1/connection_pb.ts";
import type { Provider } from "../../gen/latchkey/v1/provider_pb.ts";
import type { Logs } from "../audit/logs.ts";
import type { ConnectionCollections } from "../connections/connection-collections.ts";
import { faultOfStore } from "../stored/store-fault.ts";

/**
 * Counts how much of an account's limit of live refresh tokens is used, from the connections of one integration that
 * name the same account. The real number may be higher. A re-authorized connection leaves its former token behind.
 * Other integrations with the same OAuth app, and connections stored before the index existed, are not counted.
 */
export interface GrantCount {
  /** Returns undefined if the provider has no such limit, or the account is unknown. */
  count(connection: Connection, provider: Provider): Promise<number | undefined>;
  /**
   * Logs a warning if a new connection brings the account near its limit. Counting errors never fail the connection.
   */
  noteNew(connection: Connection, provider: Provider): Promise<void>;
}

interface GrantCountOptions {
  readonly collections: ConnectionCollections;
  readonly logs: Logs;
  readonly world: World;
}

/** Limits the connections read, including those that must be re-authorized, which are not counted. */
const mostRead = 1_000;

export function createGrantCount({ collections, logs, world }: GrantCountOptions): GrantCount {
  async function count({ ref, connectionConfig }: Connection, provider: Provider): Promise<number | undefined> {
    const account = accountOf(connectionConfig);
    if (ref === undefined || account === undefined || maxRefreshTokens(provider) === 0) return undefined;
    const under = [ref.environment, ref.integration, account];
    const found = await collections.connections.pageBy("account", { under, limit: mostRead });
    return found.filter(({ value: { state } }) => state !== Connection_State.REAUTHORIZATION_REQUIRED).length;
  }

  async function warnOfNew(connection: Connection, provider: Provider): Promise<void> {
    const live = await count(connection, provider);
    const warning = live === undefined ? undefined : refreshTokensUsedUp(provider, live);
    if (live === undefined || warning === undefined) return;
    const { environment = "", integration = "", id = "" } = connection.ref ?? {};
    world.metrics.grantsNearlyUsedUp.inc();
    // The environment's log is for its users, the process log for the operator.
    const log = logs.begin({ operation: "auth.grants", environment, integration, connectionId: id, secrets: [] });
    log.warn(
      "the account has nearly as many refresh tokens as its provider allows: one too many, and the oldest stops working",
      {
        live_grants: live,
        most_grants: maxRefreshTokens(provider),
        provider: provider.name,
      },
    );
    const ended = log.end({ failed: false });
    world.log.warn("an account has nearly as many refresh tokens as its provider allows", {
      environment,
      integration,
      connection: id,
      live,
      detail: warning.message,
      log_id: ended.id,
    });
    await ended.write();
  }

  return {
    count,
    async noteNew(connection, provider) {
      await warnOfNew(connection, provider).catch((error: unknown) => {
        if (faultOfStore(error).code === "internal") world.metrics.unhandled.inc();
        world.log.warn("live grants of an account not counted; no warning is possible", { err: error });
      });
    },
  };
}
