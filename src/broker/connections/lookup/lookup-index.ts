import type { World } from "../../../base/world.ts";
import type { Lookup } from "../../../core/notifications/notification.ts";
import type { ConnectionRef } from "../../../gen/latchkey/v1/connection_pb.ts";
import type { Store } from "../../../store/contract.ts";
import { follow } from "../../../store/follow.ts";
import { after, partsOf, under } from "../../../store/keys.ts";
import { lookupSpace } from "../connection-collections.ts";
import { type LookupField, lookupDigest } from "./connection-lookups.ts";
import type { Owner } from "./indexed-owners.ts";
import { createResourceIndex } from "./resource-index.ts";

/** In-memory index of the connections that a notification concerns. */
export interface LookupIndex {
  /**
   * Returns the first rule that matches any connection, with all its matches, by ID. No match: rule -1, and no matches.
   */
  match(
    at: { readonly environment: string; readonly integration: string },
    lookups: readonly Lookup[],
  ): { readonly rule: number; readonly matches: readonly ConnectionRef[] };
  close(): void;
}

const pageSize = 500;

/**
 * Reads the lookup digests of every connection, and follows changes. Lookup values are hashed, so matching reads
 * neither a connection nor its values from the store.
 */
export async function openLookupIndex({ store, world }: { store: Store; world: World }): Promise<LookupIndex> {
  let index = createResourceIndex();

  function show(): void {
    world.metrics.resourceIndexEntries.set(index.entries);
    world.metrics.resourceIndexBytes.set(index.bytes);
  }

  const watch = await follow({
    store,
    world,
    spaces: [lookupSpace],
    async read() {
      const fresh = createResourceIndex();
      const { from, to } = under(lookupSpace);
      let page = store.list({ from, to, limit: pageSize });
      for (;;) {
        const found = await page;
        const last = found.at(-1);
        const isLast = last === undefined || found.length < pageSize;
        // The store reads the next page in the meantime.
        if (!isLast) page = store.list({ from: after(last.key), to, limit: pageSize });
        for (const { key, value } of found) fresh.put(ownerOf(key), value);
        if (isLast) break;
      }
      return () => {
        index = fresh;
        show();
      };
    },
    onCommit({ changes }) {
      for (const { key, value } of changes) {
        if (key.startsWith(lookupPrefix)) index.put(ownerOf(key), value ?? nothing);
      }
      show();
    },
  });

  /** A body may hold several notifications: a rule finds the connections of all its values. */
  function ownersOf(where: LookupField, values: readonly string[]): readonly Owner[] {
    const found = values.flatMap((value) => {
      const digest = lookupDigest(where, value);
      return digest === undefined ? [] : index.match(digest);
    });
    if (found.length < 2) return found;
    const byId = new Map(found.map((owner) => [owner.id, owner]));
    return [...byId.values()].sort((one, other) => (one.id < other.id ? -1 : 1));
  }

  return {
    match({ environment, integration }, lookups) {
      for (const { rule, field, values } of lookups) {
        const owners = ownersOf({ environment, integration, field }, values);
        if (owners.length > 0) return { rule, matches: owners.map(refOf) };
      }
      return { rule: -1, matches: [] };
    },
    close: () => watch.close(),
  };
}

// An object literal, since `create` takes 1 µs.
const refOf = ({ environment, integration, id }: Owner): ConnectionRef => ({
  $typeName: "latchkey.v1.ConnectionRef",
  environment,
  integration,
  id,
});

const lookupPrefix = `${lookupSpace}\0`;
const nothing = new Uint8Array();

function ownerOf(key: string) {
  const [, environment = "", integration = "", id = ""] = partsOf(key);
  return { environment, integration, id };
}
