import type { World } from "../../../base/world.ts";
import type { Store } from "../../../store/contract.ts";
import { follow } from "../../../store/follow.ts";
import { after, partsOf, under } from "../../../store/keys.ts";
import { lookupSpace } from "../connection-collections.ts";
import type { Owner } from "./indexed-owners.ts";
import { createResourceIndex } from "./resource-index.ts";

/** The connections of every digest, in memory. */
export interface MemoryMatches {
  /** The digest has one character a byte. */
  find(digest: string): readonly Owner[];
  readonly bytes: number;
  close(): void;
}

interface MemoryMatchesOptions {
  readonly store: Store;
  readonly world: World;
  /** Called after each change that was followed. */
  readonly onChange: () => void;
}

const pageSize = 500;

/**
 * Reads the lookup digests of every connection, and follows changes. Lookup values are hashed, so matching reads
 * neither a connection nor its values from the store.
 */
export async function openMemoryMatches({ store, world, onChange }: MemoryMatchesOptions): Promise<MemoryMatches> {
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
        onChange();
      };
    },
    onCommit({ changes }) {
      for (const { key, value } of changes) {
        if (key.startsWith(lookupPrefix)) index.put(ownerOf(key), value ?? nothing);
      }
      show();
      onChange();
    },
  });

  return {
    find: (digest) => index.match(digest),
    get bytes() {
      return index.bytes;
    },
    close() {
      watch.close();
      index = createResourceIndex();
      show();
    },
  };
}

const lookupPrefix = `${lookupSpace}\0`;
const nothing = new Uint8Array();

function ownerOf(key: string) {
  const [, environment = "", integration = "", id = ""] = partsOf(key);
  return { environment, integration, id };
}
