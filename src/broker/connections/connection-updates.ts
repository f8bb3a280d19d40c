import { clone, type JsonObject } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { Fault, type Mistake } from "../../base/fault.ts";
import type { World } from "../../base/world.ts";
import {
  checkConnectionConfig,
  checkMetadata,
  checkTags,
  checkWebhookUrl,
  endUserTags,
  lowerTags,
  ownTags,
} from "../../core/connection-rules.ts";
import {
  type Connection,
  type ConnectionRef,
  ConnectionSchema,
  type EndUser,
} from "../../gen/latchkey/v1/connection_pb.ts";
import type { Change, Store } from "../../store/contract.ts";
import { type StoredRecordOf, transact } from "../../store/records.ts";
import type { Audit } from "../audit/audit.ts";
import type { Caller } from "../setup/caller.ts";
import { requireConfigScope } from "../setup/credential-scope.ts";
import type { Providers } from "../setup/providers.ts";
import { requireRevision } from "../stored/conflict.ts";
import { type ConnectionCollections, targetOf } from "./connection-collections.ts";

/** Changes of stored connections by callers. */
export interface ConnectionUpdates {
  update(update: ConnectionUpdate, caller: Caller): Promise<Connection>;
  /** Updates all of them or none. */
  updateMetadata(updates: readonly MetadataUpdate[], actor: string): Promise<readonly Connection[]>;
}

export interface ConnectionUpdate {
  readonly ref: ConnectionRef;
  /** Replaces the tags. */
  readonly tags?: Readonly<Record<string, string>>;
  /** `value` undefined: removes the end user. */
  readonly endUser?: { readonly value: EndUser | undefined };
  readonly connectionConfig?: JsonObject;
  readonly webhookUrlOverride?: string;
  readonly expectedRevision: bigint;
}

export interface MetadataUpdate {
  readonly ref: ConnectionRef;
  readonly metadata: JsonObject;
  readonly replace: boolean;
  readonly expectedRevision: bigint;
}

interface ConnectionUpdatesOptions {
  readonly get: (ref: ConnectionRef) => Promise<StoredRecordOf<Connection>>;
  readonly store: Store;
  readonly connections: ConnectionCollections["connections"];
  readonly providers: Providers;
  readonly audit: Audit;
  readonly world: World;
}

export function createConnectionUpdates(options: ConnectionUpdatesOptions): ConnectionUpdates {
  const { get, store, connections, providers, audit, world } = options;

  async function updated({ value: before }: StoredRecordOf<Connection>, update: ConnectionUpdate, caller: Caller) {
    const after = clone(ConnectionSchema, before);
    if (update.endUser !== undefined) {
      if (update.endUser.value === undefined) delete after.endUser;
      else after.endUser = update.endUser.value;
    }
    if (update.tags !== undefined || update.endUser !== undefined) {
      const tags = update.tags ?? ownTags(before);
      requireValid(checkTags(tags));
      after.tags = { ...endUserTags(after.endUser), ...lowerTags(tags) };
      requireValid(checkTags(after.tags));
    }
    if (update.connectionConfig !== undefined) {
      after.connectionConfig = update.connectionConfig;
      const provider = await providers.findNow(before.provider);
      requireValid(checkConnectionConfig(update.connectionConfig, provider.connectionFields));
      requireConfigScope(caller, { provider, before: before.connectionConfig, after: update.connectionConfig });
    }
    if (update.webhookUrlOverride !== undefined) {
      requireValid(checkWebhookUrl(update.webhookUrlOverride, ["webhook_url_override"]));
      after.webhookUrlOverride = update.webhookUrlOverride;
    }
    after.updatedAt = timestampFromMs(world.now());
    return after;
  }

  return {
    async update(update, caller) {
      const { keyId: actor } = caller;
      const { ref, expectedRevision } = update;
      const { tags, endUser, connectionConfig, webhookUrlOverride } = update;
      const named = {
        tags,
        end_user: endUser,
        connection_config: connectionConfig,
        webhook_url_override: webhookUrlOverride,
      };
      const fields = Object.entries(named).flatMap(([name, value]) => (value === undefined ? [] : [name]));
      const { result, revision } = await transact(store, async () => {
        const before = await get(ref);
        requireRevision(before, expectedRevision);
        if (fields.length === 0) return { changes: [], result: before.value };
        const after = await updated(before, update, caller);
        const { environment } = ref;
        return {
          changes: [
            ...connections.change({ before, after }),
            ...audit.changes({ actor, action: "connection.update", environment, targets: [targetOf(ref)], fields }),
          ],
          result: after,
        };
      });
      return revision === 0 ? result : { ...result, revision: BigInt(revision) };
    },
    async updateMetadata(updates, actor) {
      const { result, revision } = await transact(store, async () => {
        const changes: Change[] = [];
        const result: Connection[] = [];
        for (const { ref, metadata, replace, expectedRevision } of updates) {
          const before = await get(ref);
          requireRevision(before, expectedRevision);
          const merged = replace ? metadata : { ...before.value.metadata, ...metadata };
          requireValid(checkMetadata(merged));
          if (!replace && Object.keys(metadata).length === 0) {
            result.push(before.value);
            continue;
          }
          const after = { ...before.value, metadata: merged, updatedAt: timestampFromMs(world.now()) };
          changes.push(...connections.change({ before, after }));
          result.push(after);
        }
        const [first] = updates;
        if (changes.length === 0 || first === undefined) return { changes: [], result };
        const fields = [...new Set(updates.flatMap(({ metadata }) => Object.keys(metadata)))].map(
          (key) => `metadata.${key}`,
        );
        const targets = updates.map(({ ref }) => targetOf(ref));
        const { environment } = first.ref;
        changes.push(...audit.changes({ actor, action: "connection.metadata", environment, targets, fields }));
        return { changes, result };
      });
      return revision === 0 ? result : result.map((connection) => ({ ...connection, revision: BigInt(revision) }));
    },
  };
}

function requireValid(mistakes: readonly Mistake[]): void {
  if (mistakes.length > 0) throw new Fault("invalid_body", "the connection is not valid", { mistakes });
}
