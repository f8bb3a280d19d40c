import { clone, fromBinary, type JsonObject } from "@bufbuild/protobuf";
import { timestampFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
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
import { type Credentials, CredentialsSchema } from "../../gen/latchkey/v1/credentials_pb.ts";
import type { Change, Store } from "../../store/contract.ts";
import { type StoredRecordOf, transact } from "../../store/records.ts";
import type { Audit } from "../audit/audit.ts";
import type { Events } from "../deliveries/events.ts";
import type { Caller } from "../setup/access.ts";
import { requireConfigScope } from "../setup/credential-scope.ts";
import type { Integrations } from "../setup/integrations.ts";
import type { Providers } from "../setup/providers.ts";
import { requireRevision } from "../stored/conflict.ts";
import type { LastUsedTimes } from "../stored/last-used.ts";
import { namesNothing } from "../stored/name-tables.ts";
import {
  type ConnectionCollections,
  connectionTouchKey,
  credentialsKey,
  droppedConnectionKey,
} from "./connection-collections.ts";
import type { ConnectionHealth } from "./health/health.ts";

export interface Connections {
  get(ref: ConnectionRef): Promise<StoredRecordOf<Connection>>;
  /** Returns the connections found for these refs, in the same order. */
  getMany(refs: readonly ConnectionRef[]): Promise<readonly (Connection | undefined)[]>;
  credentialsOf(ref: ConnectionRef): Promise<Credentials | undefined>;
  update(asked: ConnectionUpdate, caller: Caller): Promise<Connection>;
  /** Updates all of them or none. */
  updateMetadata(asked: readonly MetadataUpdate[], actor: string): Promise<readonly Connection[]>;
  delete(asked: { readonly ref: ConnectionRef; readonly expectedRevision: bigint }, actor: string): Promise<void>;
  /** Adds the last-used times, which are stored separately. */
  withLastUse(connections: readonly Connection[]): Promise<readonly Connection[]>;
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

interface ConnectionsOptions {
  readonly store: Store;
  readonly collections: ConnectionCollections;
  readonly integrations: Integrations;
  readonly providers: Providers;
  readonly touches: LastUsedTimes;
  readonly health: ConnectionHealth;
  readonly events: Events;
  /** Changes that remove the connection's data of the customer's scripts. */
  readonly scriptedRemoval: (ref: ConnectionRef) => Promise<readonly Change[]>;
  readonly audit: Audit;
  readonly world: World;
}

/** `integration/id`, the connection's name in the audit log. */
export const targetOf = ({ integration, id }: ConnectionRef): string => `${integration}/${id}`;

export function createConnections(options: ConnectionsOptions): Connections {
  const { store, collections, integrations, providers, touches, health, events, scriptedRemoval, audit, world } =
    options;
  const { connections } = collections;

  async function get(ref: ConnectionRef): Promise<StoredRecordOf<Connection>> {
    const parts = [ref.environment, ref.integration, ref.id];
    const found = namesNothing(...parts) ? undefined : await connections.get(...parts);
    if (found !== undefined) return found;
    await integrations.get({ environment: ref.environment, key: ref.integration });
    throw new Fault("unknown_connection", `there is no connection "${ref.id}" of the integration "${ref.integration}"`);
  }

  function requireValid(mistakes: readonly Mistake[]): void {
    if (mistakes.length > 0) throw new Fault("invalid_body", "the connection is not valid", { mistakes });
  }

  async function updated({ value: before }: StoredRecordOf<Connection>, asked: ConnectionUpdate, caller: Caller) {
    const after = clone(ConnectionSchema, before);
    if (asked.endUser !== undefined) {
      if (asked.endUser.value === undefined) delete after.endUser;
      else after.endUser = asked.endUser.value;
    }
    if (asked.tags !== undefined || asked.endUser !== undefined) {
      const tags = asked.tags ?? ownTags(before);
      requireValid(checkTags(tags));
      after.tags = { ...endUserTags(after.endUser), ...lowerTags(tags) };
      requireValid(checkTags(after.tags));
    }
    if (asked.connectionConfig !== undefined) {
      after.connectionConfig = asked.connectionConfig;
      const provider = await providers.findNow(before.provider);
      requireValid(checkConnectionConfig(asked.connectionConfig, provider.connectionFields));
      requireConfigScope(caller, { provider, before: before.connectionConfig, after: asked.connectionConfig });
    }
    if (asked.webhookUrlOverride !== undefined) {
      requireValid(checkWebhookUrl(asked.webhookUrlOverride, ["webhook_url_override"]));
      after.webhookUrlOverride = asked.webhookUrlOverride;
    }
    after.updatedAt = timestampFromMs(world.now());
    return after;
  }

  return {
    get,
    async getMany(refs) {
      const found = await connections.getMany(refs.map((ref) => [ref.environment, ref.integration, ref.id]));
      return found.map((stored) => stored?.value);
    },
    async credentialsOf({ environment, integration, id }) {
      const key = credentialsKey(environment, integration, id);
      const entry = await store.get(key);
      return entry === undefined ? undefined : fromBinary(CredentialsSchema, entry.value);
    },
    async update(asked, caller) {
      const { keyId: actor } = caller;
      const { ref, expectedRevision } = asked;
      const { tags, endUser, connectionConfig, webhookUrlOverride } = asked;
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
        const after = await updated(before, asked, caller);
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
    async updateMetadata(asked, actor) {
      const { result, revision } = await transact(store, async () => {
        const changes: Change[] = [];
        const result: Connection[] = [];
        for (const { ref, metadata, replace, expectedRevision } of asked) {
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
        const [first] = asked;
        if (changes.length === 0 || first === undefined) return { changes: [], result };
        const fields = [...new Set(asked.flatMap(({ metadata }) => Object.keys(metadata)))].map(
          (key) => `metadata.${key}`,
        );
        const targets = asked.map(({ ref }) => targetOf(ref));
        const { environment } = first.ref;
        changes.push(...audit.changes({ actor, action: "connection.metadata", environment, targets, fields }));
        return { changes, result };
      });
      return revision === 0 ? result : result.map((connection) => ({ ...connection, revision: BigInt(revision) }));
    },
    async delete({ ref, expectedRevision }, actor) {
      const { environment, integration, id } = ref;
      await transact(store, async () => {
        const before = await get(ref);
        requireRevision(before, expectedRevision);
        const remembered = await health.noteDeletion(ref);
        const description = await collections.descriptions.get(environment, integration, id);
        const gone = [credentialsKey(environment, integration, id), connectionTouchKey(environment, integration, id)];
        return {
          changes: [
            ...connections.change({ before, after: undefined }),
            ...gone.map((key) => ({ key, value: undefined })),
            // The connection's records may number a million, so they are removed later.
            { key: droppedConnectionKey(before.value.number), value: new Uint8Array() },
            ...remembered.changes,
            ...collections.descriptions.change({ before: description, after: undefined }),
            ...(await scriptedRemoval(ref)),
            ...events.auth({
              operation: "deletion",
              connection: before.value,
              provider: await providers.findNow(before.value.provider),
            }),
            ...audit.changes({ actor, action: "connection.delete", environment, targets: [targetOf(ref)] }),
          ],
          conditions: remembered.conditions,
          result: undefined,
        };
      });
    },
    async withLastUse(all) {
      const keys = all.map(({ ref }) =>
        connectionTouchKey(ref?.environment ?? "", ref?.integration ?? "", ref?.id ?? ""),
      );
      const used = await touches.lastOf(keys);
      return all.map((connection, i) => {
        const created = connection.createdAt === undefined ? 0 : timestampMs(connection.createdAt);
        return { ...connection, lastFetchedAt: timestampFromMs(Math.max(used[i] ?? 0, created)) };
      });
    },
  };
}
