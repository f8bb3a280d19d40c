import { fromBinary } from "@bufbuild/protobuf";
import type { StoredEmptying } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import type { Connection } from "../../gen/latchkey/v1/connection_pb.ts";
import { CredentialsSchema } from "../../gen/latchkey/v1/credentials_pb.ts";
import type { Backend, Change, Entry, KeyRange, Store } from "../../store/contract.ts";
import { partsOf } from "../../store/keys.ts";
import {
  type ConnectionCollections,
  credentialsKey,
  droppedConnectionKey,
  lookupSpace,
  overrideSpace,
} from "../connections/connection-collections.ts";
import type { PlanRevocation } from "../connections/grant-removal.ts";
import { revocationWayOf } from "../revocations/grant-tokens.ts";
import type { Integrations } from "../setup/integrations.ts";
import type { IntegrationWithSecrets } from "../setup/integrations-in-use.ts";
import type { Providers } from "../setup/providers.ts";
import { type Companion, type ConnectionSpan, spanOf } from "./companions.ts";

/** What the deletion of a page of connections depends on, read once for many pages. */
export interface PageContext {
  readonly asked: StoredEmptying;
  /** Companions of which the environment has any. */
  readonly companions: readonly Companion[];
  /** Syncs have saved records of some connection. */
  readonly hasRecords: boolean;
}

export interface EmptiedPage {
  readonly changes: readonly Change[];
  /** Number of revocations to carry out. */
  readonly revocations: number;
}

/** The key of a stored connection, whose value was not read. */
export type StoredKey = Pick<Entry, "key">;

/** Returns the changes that delete a page of stored connections with what is stored beside them. */
export type EmptyPage = (page: readonly StoredKey[], context: PageContext) => Promise<EmptiedPage>;

interface EmptiedPageOptions {
  readonly store: Store;
  readonly keys: Backend["keys"];
  readonly collections: ConnectionCollections;
  readonly integrations: Integrations;
  readonly providers: Providers;
  readonly planRevocation: PlanRevocation;
}

const nothing: EmptiedPage = { changes: [], revocations: 0 };

export function createEmptyPage(options: EmptiedPageOptions): EmptyPage {
  const { store, keys, collections, integrations, providers, planRevocation } = options;
  const { connections } = collections;

  async function besides(span: ConnectionSpan, companions: readonly Companion[]): Promise<readonly Change[]> {
    const all = await Promise.all(
      companions.map(async (companion) => {
        const range = spanOf(companion.space, span);
        return companion.readsValue
          ? (
              await Promise.all(
                (await store.list({ ...range, limit: Number.MAX_SAFE_INTEGER })).map(companion.deletion),
              )
            ).flat()
          : (await allKeys(keys, range)).map(deletionOf);
      }),
    );
    return all.flat();
  }

  /** Returns the deletion of each with its secondary keys, and the revocation of its grant. */
  async function revoked(
    group: readonly Entry[],
    {
      inUse,
      span,
      asked,
    }: { readonly inUse: IntegrationWithSecrets; readonly span: ConnectionSpan; readonly asked: StoredEmptying },
  ): Promise<EmptiedPage> {
    const { keepGrant, actor } = asked;
    const sealed = await store.list({ ...spanOf(["credentials"], span), limit: Number.MAX_SAFE_INTEGER });
    const credentialsOf = new Map(sealed.map((one) => [one.key, one]));
    const changes = group.flatMap((entry) => {
      const connection = connectionOf(entry);
      const key = credentialsKeyOf(entry);
      const held = credentialsOf.get(key);
      const credentials = held === undefined ? undefined : fromBinary(CredentialsSchema, held.value);
      return [
        ...connections.change({ before: { value: connection, ...sizeOf(entry) }, after: undefined }).filter(isNoFacet),
        // Credentials that a refresh stores in between must not escape the revocation.
        { key, value: undefined, expect: held?.revision ?? 0 },
        ...planRevocation({ ...inUse, connection, credentials, keepGrant, actor }).changes,
      ];
    });
    // A grant with further tokens has several tasks.
    return { changes, revocations: changes.filter(({ key }) => key.startsWith("revocation-task\0")).length };
  }

  function connectionOf(entry: Entry): Connection {
    const value = connections.read(entry, entry.revision)?.value;
    if (value === undefined) throw new Error("an entry of connections holds one");
    return value;
  }

  /** Whether grants of the integration are revoked. */
  function isRevoking({ integration }: IntegrationWithSecrets, { keepGrant }: StoredEmptying): boolean {
    const provider = providers.lookUp(integration.provider);
    const isKept = keepGrant ?? integration.keepGrants;
    return !isKept && provider !== undefined && revocationWayOf(provider) !== "unsupported";
  }

  async function emptied(
    group: readonly StoredKey[],
    { asked, companions, hasRecords }: PageContext,
  ): Promise<EmptiedPage> {
    const span = spanAround(group);
    if (span === undefined) return nothing;
    const inUse = await integrations.inUse({ environment: span.environment, key: span.integration });
    const revokes = isRevoking(inUse, asked);
    const read = revokes || hasRecords ? await store.getMany(group.map(({ key }) => key)) : [];
    const opened = read.flatMap((one) => (one === undefined ? [] : [one]));
    const [own, more] = await Promise.all([
      revokes ? revoked(opened, { inUse, span, asked }) : { changes: unread(group), revocations: 0 },
      besides(span, companions),
    ]);
    // A connection's records may number a million, so they are removed later.
    const dropped = hasRecords
      ? opened.map((entry) => ({ key: droppedConnectionKey(connectionOf(entry).number), value: new Uint8Array() }))
      : [];
    return { changes: [...own.changes, ...more, ...dropped], revocations: own.revocations };
  }

  return async (page, context) => {
    const groups = Map.groupBy(page, ({ key }) => partsOf(key)[2]);
    const all = await Promise.all([...groups.values()].map((group) => emptied(group, context)));
    return {
      changes: all.flatMap(({ changes }) => changes),
      revocations: all.reduce((sum, { revocations }) => sum + revocations, 0),
    };
  };
}

/** Most ranges are empty, and a server also reads what follows them. */
const firstKeys = 100;
const keysAtOnce = 2_000;

/** Reads all keys of a range. */
export async function allKeys(
  keys: Backend["keys"],
  { from, to }: Pick<KeyRange, "from" | "to">,
): Promise<readonly StoredKey[]> {
  const all: StoredKey[] = [];
  let limit = firstKeys;
  for (let rest: string | undefined = from; rest !== undefined; limit = keysAtOnce) {
    const page = await keys({ from: rest, to, limit });
    for (const key of page.keys) all.push({ key });
    rest = page.rest;
  }
  return all;
}

export const deletionOf = ({ key }: StoredKey): Change => ({ key, value: undefined });

/** Deletes connections by their keys alone: to read one takes longer than to delete it. */
const unread = (group: readonly StoredKey[]): readonly Change[] =>
  group.flatMap((entry) => [
    { key: entry.key, value: undefined },
    { key: credentialsKeyOf(entry), value: undefined },
  ]);

function credentialsKeyOf({ key }: StoredKey): string {
  const [, environment = "", integration = "", id = ""] = partsOf(key);
  return credentialsKey(environment, integration, id);
}

const sizeOf = ({ revision, value }: Entry) => ({ revision, bytes: value.length });

/** Facets that are stored are among the companions: to delete others would cost PostgreSQL a row each. */
const isNoFacet = ({ key }: Change): boolean =>
  !key.startsWith(`${lookupSpace}\0`) && !key.startsWith(`${overrideSpace}\0`);

/** Returns the span of connections of one integration, which are in order. */
export function spanAround(group: readonly StoredKey[]): ConnectionSpan | undefined {
  const [first, last] = [group[0], group.at(-1)];
  if (first === undefined || last === undefined) return undefined;
  const [, environment = "", integration = "", id = ""] = partsOf(first.key);
  return { environment, integration, first: id, last: partsOf(last.key)[3] ?? id };
}
