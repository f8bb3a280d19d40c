import type { World } from "../../../base/world.ts";
import { isOtherAccount } from "../../../core/notifications/email-hash.ts";
import type { Connection, ConnectionRef } from "../../../gen/latchkey/v1/connection_pb.ts";
import type { Change, Condition, Store } from "../../../store/contract.ts";
import type { Audit } from "../../audit/audit.ts";
import type { Logs } from "../../audit/logs.ts";
import { channelChanges, hasAutomaticChannels } from "../../channels/connection-channel.ts";
import type { ChannelSlots } from "../../channels/slots.ts";
import { refreshKey, targetOf } from "../../connections/connection-collections.ts";
import type { Events } from "../../deliveries/events.ts";
import type { SetupCollections } from "../../setup/setup-collections.ts";
import type { AuthorizedImport } from "./authorized-import.ts";
import type { PendingImport } from "./import-merge.ts";

/** Stores a batch with all its consequences in one commit. Returns its revision; 0 if the batch is empty. */
export type CommitImports = (batch: readonly PendingImport[], origin: ImportOrigin) => Promise<number>;

export interface ImportOrigin {
  readonly actor: string;
  /** Set for a batch of one authorized connection. */
  readonly authorized?: AuthorizedImport;
}

export interface FiledConnection {
  readonly ref: ConnectionRef;
  readonly isNew: boolean;
  /** False for an item of a bulk import, unless the caller requests hooks. */
  readonly runHooks: boolean;
}

export interface ImportCommitOptions {
  readonly store: Store;
  readonly collections: SetupCollections;
  readonly slots: ChannelSlots;
  /** Returns the changes in the customer's syncs and hooks for a stored connection. */
  readonly scripted: (filed: FiledConnection) => readonly Change[] | Promise<readonly Change[]>;
  readonly logs: Logs;
  readonly events: Events;
  readonly audit: Audit;
  readonly world: World;
}

export function createCommitImports(options: ImportCommitOptions): CommitImports {
  const { store, collections, slots, scripted, logs, events, audit, world } = options;

  function auditChanges(batch: readonly PendingImport[], { actor, authorized }: ImportOrigin): Change[] {
    const action = authorized === undefined ? "connection.import" : "connection.authorize";
    const byEnvironment = Map.groupBy(batch, ({ after }) => after.ref?.environment ?? "");
    return [...byEnvironment].flatMap(([environment, imported]) => {
      const targets = imported.flatMap(({ after }) => (after.ref === undefined ? [] : [targetOf(after.ref)]));
      return audit.changes({ actor, action, environment, targets });
    });
  }

  function conditionsOf(batch: readonly PendingImport[]): Condition[] {
    // An integration deleted in the meantime must not leave a connection behind.
    const targets = [...new Set(batch.map(({ target }) => target))];
    const integrations = targets.map(({ stored }) => collections.integrations.unchanged(stored));
    // A record being written about the former credentials must not outlive them.
    const refreshes = batch
      .filter(({ before, record }) => before !== undefined && record === undefined)
      .map(({ ref }) => ({ key: refreshKey(ref.environment, ref.integration, ref.id), expect: 0 }));
    return [...integrations, ...refreshes];
  }

  /** Returns the changes of channels, syncs and hooks. */
  async function followUps(batch: readonly PendingImport[], isAuthorized: boolean): Promise<Change[]> {
    const changes: Change[] = [];
    for (const { ref, target, before, runHooks } of batch) {
      // The later of two items for one connection sees an existing connection, which is new all the same.
      const isNew = before === undefined;
      if (hasAutomaticChannels(target)) {
        const filed = { ref, ...target, isAuthorized, isNew, nowMs: world.now() };
        changes.push(...(await channelChanges(slots, filed)));
      }
      // Most have none: a promise for each of thousands of items would cost more than the rest.
      const further = scripted({ ref, isNew, runHooks });
      changes.push(...(further instanceof Promise ? await further : further));
    }
    return changes;
  }

  function authorizedChanges({ after: connection, before, target, created }: PendingImport): Change[] {
    const operation = created ? "creation" : "override";
    const isOther = isOtherAccount(before?.value.connectionConfig, connection.connectionConfig);
    const event = { operation, connection, provider: target.provider, isOtherAccount: isOther } as const;
    return [...events.auth(event), ...(isOther ? otherAccountLog(connection) : [])];
  }

  /**
   * Data that the application stored under the connection belonged to another account. Names neither account, nor a
   * hash.
   */
  function otherAccountLog({ ref, provider }: Connection): Change[] {
    const { environment = "", integration = "", id: connectionId = "" } = ref ?? {};
    const log = logs.begin({ operation: "auth.authorize", environment, integration, connectionId, secrets: [] });
    log.warn("the connection was authorized again, with another account at the provider", { provider });
    return log.end({ failed: false }).changes();
  }

  return async (batch, origin) => {
    const { authorized } = origin;
    const changes = [...batch.flatMap((one) => one.changes), ...auditChanges(batch, origin)];
    if (changes.length === 0) return 0;
    const conditions = conditionsOf(batch);
    changes.push(...(await followUps(batch, authorized !== undefined)));
    if (authorized !== undefined) {
      changes.push(...(await authorized.alongside()), ...batch.flatMap(authorizedChanges));
    }
    return store.commit(changes, conditions);
  };
}
