import { setImmediate } from "node:timers/promises";
import type { Connection } from "../../../gen/latchkey/v1/connection_pb.ts";
import type { Change, Condition, Store } from "../../../store/contract.ts";
import { after, keyOf, partsOf, under } from "../../../store/keys.ts";
import type { StoredRecordOf } from "../../../store/records.ts";
import { type ConnectionCollections, lookupSpace } from "../connection-collections.ts";
import type { IntegrationName } from "../integration-name.ts";
import { connectionLookups } from "./connection-lookups.ts";
import { lookupRowKeys, lookupRowSpace } from "./lookup-rows.ts";

interface LookupPageOptions {
  readonly store: Store;
  readonly connections: ConnectionCollections["connections"];
  readonly integration: IntegrationName;
  /** The fields that notifications find connections by. */
  readonly wanted: readonly string[];
  /** Each value is stored under a key of its own. */
  readonly areRowsWritten: boolean;
  /** Begins after this connection. */
  readonly from: string | undefined;
}

export interface LookupPage {
  readonly changes: readonly Change[];
  readonly conditions: readonly Condition[];
  /** The end of the page if more may follow. */
  readonly last: string | undefined;
}

const pageSize = 100;
/** Yields to other work after this time: a connection with 10,000 watched resources alone may take as long. */
const sliceMs = 5;

/** Compares the lookup keys of a page of connections with the wanted ones, and returns what must change. */
export async function readLookupPage(options: LookupPageOptions): Promise<LookupPage> {
  const { store, connections, integration: name, wanted, from } = options;
  const parts = [name.environment, name.integration];
  const page = await connections.page({ under: parts, after: from, limit: pageSize });
  const last = page.length < pageSize ? undefined : page.at(-1)?.position;
  const all = under(lookupSpace, ...parts);
  const found = await store.list({
    from: from === undefined ? all.from : after(`${all.from}${from}`),
    to: last === undefined ? all.to : after(`${all.from}${last}`),
    limit: Number.MAX_SAFE_INTEGER,
  });
  const filed = new Map(found.map(({ key, value }) => [key, value]));
  const changes: Change[] = [];
  const written = new Set<StoredRecordOf<Connection>>();
  let since = performance.now();
  for (const stored of page) {
    const key = `${all.from}${stored.position}`;
    const [old, next] = [filed.get(key), connectionLookups(stored.value, wanted)];
    filed.delete(key);
    if (performance.now() - since > sliceMs) {
      await setImmediate();
      since = performance.now();
    }
    if (old === next || (old !== undefined && next !== undefined && Buffer.compare(old, next) === 0)) continue;
    changes.push({ key, value: next });
    if (options.areRowsWritten && old !== undefined) {
      const own = keyOf(...parts, stored.position);
      const kept = new Set(next && lookupRowKeys(own, next));
      for (const row of lookupRowKeys(own, old)) if (!kept.has(row)) changes.push({ key: row, value: undefined });
    }
    written.add(stored);
  }
  for (const { key, stored } of await missingKeys(options, page)) {
    changes.push({ key, value: new Uint8Array() });
    written.add(stored);
  }
  const conditions: Condition[] = [...written].map((stored) => connections.unchanged(stored));
  // Keys without a connection: an older version deleted the connection alone.
  for (const key of filed.keys()) {
    const [, ...of] = partsOf(key);
    changes.push({ key, value: undefined });
    conditions.push({ key: keyOf(connections.name, ...of), expect: 0 });
  }
  return { changes, conditions, last };
}

/**
 * Returns the keys that find connections by a value or by the account of their grant, and that no write has added: an
 * older version stored the connection, its provider has other fields now, or the description has named another account
 * since.
 */
async function missingKeys(
  { store, connections }: Pick<LookupPageOptions, "store" | "connections">,
  page: readonly StoredRecordOf<Connection>[],
) {
  const spaces = [`${connections.name}.grant\0`, `${lookupRowSpace}\0`];
  const wanted = page.flatMap((stored) =>
    connections
      .added(stored.value)
      .filter(({ key }) => spaces.some((space) => key.startsWith(space)))
      .map(({ key }) => ({ key, stored })),
  );
  const found = await store.getMany(wanted.map(({ key }) => key));
  return wanted.filter((_, i) => found[i] === undefined);
}
