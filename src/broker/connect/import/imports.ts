import { randomUUID } from "node:crypto";
import { create, type JsonObject, toBinary } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { Fault, type Mistake } from "../../../base/fault.ts";
import type { World } from "../../../base/world.ts";
import {
  checkConnectionConfig,
  checkConnectionId,
  checkMetadata,
  checkTags,
  checkWebhookUrl,
  endUserTags,
  lowerTags,
  ownTags,
} from "../../../core/connection-rules.ts";
import { isOtherAccount } from "../../../core/notifications/email-hash.ts";
import type { ConnectionDescription, RefreshRecord } from "../../../gen/latchkey/stored/v1/stored_pb.ts";
import {
  type Connection,
  type ConnectionImport,
  type ConnectionRef,
  ConnectionRefSchema,
  ConnectionSchema,
} from "../../../gen/latchkey/v1/connection_pb.ts";
import { CredentialsSchema } from "../../../gen/latchkey/v1/credentials_pb.ts";
import type { Integration } from "../../../gen/latchkey/v1/integration_pb.ts";
import type { Provider } from "../../../gen/latchkey/v1/provider_pb.ts";
import { type Change, StaleWrite, type Store } from "../../../store/contract.ts";
import type { StoredRecordOf } from "../../../store/records.ts";
import type { Audit } from "../../audit/audit.ts";
import type { Logs } from "../../audit/logs.ts";
import { channelChanges } from "../../channels/channels.ts";
import type { ChannelSlots } from "../../channels/slots.ts";
import {
  type ConnectionCollections,
  credentialsKey,
  refreshKey,
  targetOf,
} from "../../connections/connection-collections.ts";
import { credentialsExpireAt } from "../../connections/credentials-expiry.ts";
import { checkCredentials } from "../../connections/credentials-rules.ts";
import type { ConnectionHealth } from "../../connections/health/health.ts";
import { scopesOfImport } from "../../connections/import-scopes.ts";
import type { Numbers } from "../../connections/numbers.ts";
import type { Events } from "../../deliveries/events.ts";
import type { Integrations } from "../../setup/integrations.ts";
import type { Providers } from "../../setup/providers.ts";
import type { SetupCollections } from "../../setup/setup-collections.ts";
import { requireRevision } from "../../stored/conflict.ts";
import { namesNothing } from "../../stored/name-tables.ts";
import { createImportDescriptions } from "./import-descriptions.ts";

/** The result of one item. */
export type ImportedItem =
  | {
      readonly ref: ConnectionRef;
      readonly connection: Connection;
      readonly created: boolean;
      readonly fault?: undefined;
    }
  | { readonly ref: ConnectionRef; readonly fault: Fault };

/** An item of a bulk import. */
export interface BulkItem {
  readonly item: ConnectionImport;
  /** Runs the same hooks as for a single import. */
  readonly runHooks: boolean;
}

export interface Imports {
  /**
   * Imports each item independently: an invalid item does not affect the others. All valid items are one commit, so the
   * call is as fast as the disk. If two items have the same reference, the later one wins.
   */
  importAll(items: readonly BulkItem[], actor: string): Promise<readonly ImportedItem[]>;
  /** Imports one item; throws its error. */
  importOne(
    item: ConnectionImport,
    actor: string,
  ): Promise<{ readonly connection: Connection; readonly created: boolean }>;
  /** Stores a connection that its end user authorized: like an import, in one commit with all consequences. */
  authorizeOne(
    authorized: AuthorizedImport,
    actor: string,
  ): Promise<{ readonly connection: Connection; readonly created: boolean }>;
}

/** The result of an end user's consent. */
export interface AuthorizedImport {
  /** The connection's name, credentials, end user and tags. */
  readonly item: ConnectionImport;
  /** The connection exists and is re-authorized: if it was deleted in the meantime, no new one is made. */
  readonly isAgain: boolean;
  /** Merged into the existing values, which are kept otherwise. */
  readonly metadata: JsonObject;
  readonly connectionConfig: JsonObject;
  readonly grantedScopes: readonly string[];
  readonly missingScopes: readonly string[];
  /** Returns additional changes of the commit, from the current state; called again after a conflict. */
  readonly alongside: () => Promise<readonly Change[]>;
}

interface ImportsOptions {
  readonly store: Store;
  readonly collections: SetupCollections & ConnectionCollections;
  readonly integrations: Integrations;
  readonly providers: Providers;
  readonly numbers: Numbers;
  readonly slots: ChannelSlots;
  /** Returns the changes in the customer's syncs and hooks for a stored connection. */
  readonly scripted: (filed: FiledConnection) => Promise<readonly Change[]>;
  readonly health: ConnectionHealth;
  readonly logs: Logs;
  readonly events: Events;
  readonly audit: Audit;
  readonly world: World;
}

export interface FiledConnection {
  readonly ref: ConnectionRef;
  readonly isNew: boolean;
  /** False for an item of a bulk import, unless the caller requests hooks. */
  readonly runHooks: boolean;
}

interface ImportTarget {
  readonly stored: StoredRecordOf<Integration>;
  readonly integration: Integration;
  readonly provider: Provider;
}

export function createImports(options: ImportsOptions): Imports {
  const { store, collections, integrations, providers, numbers, slots, scripted, health, logs, events, audit, world } =
    options;
  const { connections, refreshes } = collections;
  const importDescriptions = createImportDescriptions({ collections, world });

  /** Looks up the integrations of a batch, each once, found or not. */
  async function homesOf(items: readonly ConnectionImport[]): Promise<ReadonlyMap<string, ImportTarget | Fault>> {
    const homes = new Map<string, ImportTarget | Fault>();
    for (const { environment, integration: key } of items) {
      const at = `${environment}\0${key}`;
      if (homes.has(at)) continue;
      try {
        const stored = await integrations.get({ environment, key });
        const { value: integration } = stored;
        homes.set(at, { stored, integration, provider: await providers.findNow(integration.provider) });
      } catch (error) {
        if (!(error instanceof Fault)) throw error;
        homes.set(at, error);
      }
    }
    return homes;
  }

  /**
   * Returns the existing connections of these refs. An invalid ref counts as missing here; validation rejects it later.
   */
  async function knownOf(refs: readonly ConnectionRef[]): Promise<readonly (StoredRecordOf<Connection> | undefined)[]> {
    const keys = refs.map(({ environment, integration, id }) => [environment, integration, id]);
    const found = (await connections.getMany(keys.filter((key) => !namesNothing(...key)))).values();
    return keys.map((key) => (namesNothing(...key) ? undefined : found.next().value));
  }

  interface Whose {
    readonly actor: string;
    /** Set for a batch of one authorized connection. */
    readonly authorized?: AuthorizedImport;
  }

  /** Returns the refresh records of the existing connections. */
  async function recordsOf(
    refs: readonly ConnectionRef[],
    known: readonly (StoredRecordOf<Connection> | undefined)[],
  ): Promise<readonly (StoredRecordOf<RefreshRecord> | undefined)[]> {
    const there = refs.filter((_, i) => known[i] !== undefined);
    if (there.length === 0) return [];
    const keys = there.map(({ environment, integration, id }) => [environment, integration, id]);
    const found = (await refreshes.getMany(keys)).values();
    return known.map((one) => (one === undefined ? undefined : found.next().value));
  }

  async function importAll(items: readonly BulkItem[], { actor, authorized }: Whose): Promise<readonly ImportedItem[]> {
    const named = items.map(({ item }) => (item.id === "" ? { ...item, id: randomUUID() } : item));
    const refs = named.map(({ environment, integration, id }) =>
      create(ConnectionRefSchema, { environment, integration, id }),
    );
    for (;;) {
      const homes = await homesOf(named);
      const known = await knownOf(refs);
      const records = await recordsOf(refs, known);
      const described = await importDescriptions.read(refs, ({ environment, integration }) => {
        const home = homes.get(`${environment}\0${integration}`);
        return home instanceof Fault ? undefined : home?.provider;
      });
      const batch = new Map<string, Pending>();
      const outcomes: (Pending | Fault)[] = [];
      for (const [i, asked] of named.entries()) {
        const home = homes.get(`${asked.environment}\0${asked.integration}`);
        const ref = refs[i];
        if (home === undefined || ref === undefined) throw new Error("every item has a home and a ref");
        if (home instanceof Fault) {
          outcomes.push(home);
          continue;
        }
        const at = `${asked.environment}\0${asked.integration}\0${asked.id}`;
        const before = known[i];
        const base = batch.get(at)?.after ?? before?.value;
        if (authorized?.isAgain === true && base === undefined) throw isGone(asked);
        const item = authorized === undefined ? asked : filedOver(base, authorized, asked);
        const fault = faultOf(item, { home, base }) ?? conflictOf(item, before);
        if (fault !== undefined) {
          outcomes.push(fault);
          continue;
        }
        const runHooks = items[i]?.runHooks === true || batch.get(at)?.runHooks === true;
        const pending = await merged({
          item,
          ref,
          runHooks,
          home,
          before,
          base,
          record: records[i],
          description: described[i],
          authorized,
        });
        batch.set(at, pending);
        outcomes.push(pending);
      }
      try {
        const revision = BigInt(await commit([...batch.values()], { actor, ...(authorized && { authorized }) }));
        return outcomes.map((outcome, i): ImportedItem => {
          const ref = refs[i] ?? create(ConnectionRefSchema);
          if (outcome instanceof Fault) return { ref, fault: outcome };
          return { ref, created: outcome.created, connection: { ...outcome.after, revision } };
        });
      } catch (error) {
        // Another write changed one of the connections in the meantime: read and decide again.
        if (!(error instanceof StaleWrite)) throw error;
      }
    }
  }

  interface Pending {
    readonly ref: ConnectionRef;
    readonly before: StoredRecordOf<Connection> | undefined;
    readonly after: Connection;
    /** Includes the changes of its health. */
    readonly changes: readonly Change[];
    readonly record: StoredRecordOf<RefreshRecord> | undefined;
    readonly home: ImportTarget;
    readonly created: boolean;
    readonly runHooks: boolean;
  }

  interface MergeStep {
    readonly item: ConnectionImport;
    readonly ref: ConnectionRef;
    readonly runHooks: boolean;
    readonly home: ImportTarget;
    readonly before: StoredRecordOf<Connection> | undefined;
    /** The base of the merge: the stored connection, or the result of an earlier item of the batch. */
    readonly base: Connection | undefined;
    readonly record?: StoredRecordOf<RefreshRecord> | undefined;
    readonly description?: StoredRecordOf<ConnectionDescription> | undefined;
    readonly authorized: AuthorizedImport | undefined;
  }

  /**
   * Merges an item into the existing connection: its credentials replace the former, values that it does not name stay.
   */
  async function merged(step: MergeStep): Promise<Pending> {
    const { item, ref, runHooks, home, before, base, record, authorized } = step;
    const { credentials, metadata, connectionConfig, endUser, webhookUrlOverride } = item;
    if (credentials === undefined) throw new Error("an item without credentials was let through");
    const now = timestampFromMs(world.now());
    const user = endUser ?? base?.endUser;
    const expiresAt = credentialsExpireAt(credentials);
    const connection = create(ConnectionSchema, {
      ref,
      number: base?.number ?? (await numbers.next()),
      provider: home.provider.name,
      metadata: metadata ?? base?.metadata ?? {},
      connectionConfig: connectionConfig ?? base?.connectionConfig ?? {},
      tags: tagsOf(item, base),
      ...(user === undefined ? {} : { endUser: user }),
      webhookUrlOverride: webhookUrlOverride ?? base?.webhookUrlOverride ?? "",
      errors: base?.errors ?? [],
      grantedScopes: [...(authorized?.grantedScopes ?? scopesOfImport(credentials, home.provider))],
      missingScopes: [...(authorized?.missingScopes ?? [])],
      credentialsKind: kindName(credentials.kind.case),
      ...(expiresAt === undefined ? {} : { credentialsExpireAt: expiresAt }),
      createdAt: base?.createdAt ?? now,
      updatedAt: now,
    });
    const key = credentialsKey(ref.environment, ref.integration, ref.id);
    const sealed: Change = { key, value: toBinary(CredentialsSchema, credentials), secret: true };
    // New credentials end all problems of the former ones.
    const { connection: after, changes } = health.noteReplacement({
      ...home,
      ref,
      credentials,
      connection,
      before,
      record,
      grantedAtMs: authorized === undefined ? undefined : world.now(),
    });
    const all = [...changes, sealed, ...importDescriptions.changes({ ...step, ...home }, after)];
    return { ref, before, after, changes: all, record, home, created: base === undefined, runHooks };
  }

  async function commit(batch: readonly Pending[], { actor, authorized }: Whose): Promise<number> {
    const action = authorized === undefined ? "connection.import" : "connection.authorize";
    const changes = batch.flatMap((one) => one.changes);
    const byEnvironment = Map.groupBy(batch, ({ after }) => after.ref?.environment ?? "");
    for (const [environment, imported] of byEnvironment) {
      const targets = imported.flatMap(({ after }) => (after.ref === undefined ? [] : [targetOf(after.ref)]));
      changes.push(...audit.changes({ actor, action, environment, targets }));
    }
    // An integration deleted in the meantime must not leave a connection behind.
    const homes = [...new Set(batch.map(({ home }) => home))].map(({ stored }) =>
      collections.integrations.unchanged(stored),
    );
    // A record being written about the former credentials must not outlive them.
    const unremembered = batch.flatMap(({ ref, before, record }) =>
      before === undefined || record !== undefined
        ? []
        : [{ key: refreshKey(ref.environment, ref.integration, ref.id), expect: 0 }],
    );
    const conditions = [...homes, ...unremembered];
    // No item was imported, so there are no consequences.
    if (changes.length === 0) return 0;
    for (const { ref, home, before, runHooks } of batch) {
      const isAuthorized = authorized !== undefined;
      // The later of two items for one connection sees an existing connection, which is new all the same.
      const isNew = before === undefined;
      const filed = { ref, ...home, isAuthorized, isNew, nowMs: world.now() };
      changes.push(...(await channelChanges(slots, filed)), ...(await scripted({ ref, isNew, runHooks })));
    }
    if (authorized !== undefined) {
      changes.push(...(await authorized.alongside()));
      for (const { after: connection, before, home, created } of batch) {
        const operation = created ? "creation" : "override";
        const isOther = isOtherAccount(before?.value.connectionConfig, connection.connectionConfig);
        const event = { operation, connection, provider: home.provider, isOtherAccount: isOther } as const;
        changes.push(...events.auth(event), ...(isOther ? otherAccountLog(connection) : []));
      }
    }
    return store.commit(changes, conditions);
  }

  /**
   * Data that the application stored under the connection belonged to another account. Names neither account, nor a
   * hash.
   */
  function otherAccountLog({ ref, provider }: Connection): Change[] {
    const { environment = "", integration = "", id: connectionId = "" } = ref ?? {};
    const log = logs.begin({ operation: "auth.authorize", environment, integration, connectionId, secrets: [] });
    log.warn("authorised again, the connection is now of another account at the provider", { provider });
    return log.end({ failed: false }).changes();
  }

  async function importCounted(items: readonly BulkItem[], whose: Whose): Promise<readonly ImportedItem[]> {
    const results = await importAll(items, whose);
    for (const one of results) {
      const result = one.fault !== undefined ? "refused" : one.created ? "created" : "overridden";
      world.metrics.imports.inc({ result });
    }
    return results;
  }

  return {
    importAll: (items, actor) => importCounted(items, { actor }),
    async importOne(item, actor) {
      const [result] = await importCounted([{ item, runHooks: true }], { actor });
      if (result === undefined) throw new Error("one item has one result");
      if (result.fault !== undefined) throw result.fault;
      return result;
    },
    async authorizeOne(authorized, actor) {
      const [result] = await importAll([{ item: authorized.item, runHooks: true }], { actor, authorized });
      if (result === undefined) throw new Error("one item has one result");
      if (result.fault !== undefined) throw result.fault;
      return result;
    },
  };
}

const isGone = ({ id }: ConnectionImport) =>
  new Fault("unknown_connection", `the connection "${id}", which was to be authorized again, is gone`);

/** Merges the authorization's values into the existing connection: only named values change. */
function filedOver(
  base: Connection | undefined,
  authorized: AuthorizedImport,
  item: ConnectionImport,
): ConnectionImport {
  const { metadata, connectionConfig } = authorized;
  return {
    ...item,
    ...(Object.keys(metadata).length === 0 ? {} : { metadata: { ...base?.metadata, ...metadata } }),
    connectionConfig: { ...base?.connectionConfig, ...connectionConfig },
  };
}

function conflictOf(
  { expectedRevision }: ConnectionImport,
  before: StoredRecordOf<Connection> | undefined,
): Fault | undefined {
  try {
    requireRevision(before, expectedRevision);
    return undefined;
  } catch (error) {
    return Fault.from(error);
  }
}

interface ImportSlot {
  readonly home: ImportTarget;
  readonly base: Connection | undefined;
}

/** The resulting tags: the item's own or else the existing ones, which override the tags of the end user. */
function tagsOf({ tags, endUser }: ConnectionImport, base: Connection | undefined): Record<string, string> {
  const own = tags === undefined ? (base === undefined ? {} : ownTags(base)) : lowerTags(tags.tags);
  return { ...endUserTags(endUser ?? base?.endUser), ...own };
}

function faultOf(item: ConnectionImport, { home: { integration, provider }, base }: ImportSlot): Fault | undefined {
  const { credentials, metadata, connectionConfig, webhookUrlOverride = "" } = item;
  const wanted = provider.auth.case;
  const given = credentials?.kind.case;
  const withDefaults = { ...integration.connectionDefaults, ...(connectionConfig ?? base?.connectionConfig) };
  const mistakes: Mistake[] = [
    ...(item.id === "" ? [] : checkConnectionId(item.id)),
    ...(given === undefined ? [{ path: ["credentials"], message: "are required" }] : []),
    ...(given !== undefined && given !== wanted
      ? [
          {
            path: ["credentials", "type"],
            message: `must be ${kindName(wanted)}, as the provider wants it, not ${kindName(given)}`,
          },
        ]
      : []),
    ...(credentials === undefined ? [] : checkCredentials(credentials)),
    ...(metadata === undefined ? [] : checkMetadata(metadata)),
    ...checkConnectionConfig(withDefaults, provider.connectionFields),
    ...checkTagsOf(item, base),
    ...checkWebhookUrl(webhookUrlOverride, ["webhook_url_override"]),
  ];
  return mistakes.length === 0 ? undefined : new Fault("invalid_body", "the connection is not valid", { mistakes });
}

/** Checks the item's own tags first, then all tags including those of the end user, for their number. */
function checkTagsOf(item: ConnectionImport, base: Connection | undefined): Mistake[] {
  if (item.tags === undefined && item.endUser === undefined) return [];
  const mistakes = checkTags(item.tags?.tags ?? {});
  return mistakes.length > 0 ? mistakes : checkTags(tagsOf(item, base));
}

const kindName = (kind: string | undefined): string =>
  CredentialsSchema.oneofs[0]?.fields.find(({ localName }) => localName === kind)?.name ?? "";
