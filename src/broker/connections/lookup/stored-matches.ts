import type { World } from "../../../base/world.ts";
import type { Store } from "../../../store/contract.ts";
import { follow } from "../../../store/follow.ts";
import { after, keyOf } from "../../../store/keys.ts";
import { lookupSpace } from "../connection-collections.ts";
import type { IntegrationName } from "../integration-name.ts";
import type { Owner } from "./indexed-owners.ts";
import { holdsDigest, lookupRowSpace } from "./lookup-rows.ts";

/** The connections of a digest, read from the store; recent answers are in memory until a row of theirs changes. */
export interface StoredMatches {
  /** The digest has one character a byte. */
  find(at: IntegrationName, digest: string): readonly Owner[] | Promise<readonly Owner[]>;
  close(): void;
}

interface StoredMatchesOptions {
  readonly store: Store;
  readonly world: World;
  /** Limits the answers in memory, counted with their connections. */
  readonly most: number;
}

const pageSize = 1_000;
const rowPrefix = `${lookupRowSpace}\0`;

export async function openStoredMatches({ store, world, most }: StoredMatchesOptions): Promise<StoredMatches> {
  const { metrics } = world;
  const answers = createAnswers(most);
  /** Reads that began after the last change of their rows. */
  const readings = new Map<string, Promise<readonly Owner[]>>();

  const watch = await follow({
    store,
    world,
    spaces: [lookupRowSpace],
    read: async () => () => {
      answers.clear();
      readings.clear();
    },
    onCommit({ changes }) {
      for (const { key } of changes) {
        if (!key.startsWith(rowPrefix)) continue;
        const name = key.slice(0, key.lastIndexOf("\0"));
        answers.delete(name);
        readings.delete(name);
      }
    },
  });

  async function idsOf(name: string): Promise<readonly string[]> {
    const ids: string[] = [];
    let from = `${name}\0`;
    for (;;) {
      const page = await store.list({ from, to: `${name}\x01`, limit: pageSize });
      for (const { key } of page) ids.push(key.slice(name.length + 1));
      const last = page.at(-1);
      if (last === undefined || page.length < pageSize) return ids;
      from = after(last.key);
    }
  }

  /** Rows are hints: the connection's own lookups decide, which every version writes. */
  async function read(name: string, { environment, integration }: IntegrationName, digest: string) {
    const ids = await idsOf(name);
    if (ids.length === 0) return [];
    const lookups = await store.getMany(ids.map((id) => keyOf(lookupSpace, environment, integration, id)));
    return ids.flatMap((id, i) => {
      const held = lookups[i];
      return held !== undefined && holdsDigest(held.value, digest) ? [{ environment, integration, id }] : [];
    });
  }

  return {
    find(at, digest) {
      const { environment, integration } = at;
      const name = keyOf(lookupRowSpace, environment, integration, Buffer.from(digest, "latin1").toString("base64url"));
      const known = answers.get(name);
      metrics.lookups.series({ source: known === undefined ? "store" : "recent" }).add();
      if (known !== undefined) return known;
      const begun = readings.get(name);
      if (begun !== undefined) return begun;
      const reading = read(name, at, digest).finally(() => {
        isCurrent = readings.get(name) === reading;
        if (isCurrent) readings.delete(name);
      });
      let isCurrent = false;
      readings.set(name, reading);
      return reading.then((owners) => {
        if (isCurrent) answers.set(name, owners);
        return owners;
      });
    },
    close: () => watch.close(),
  };
}

interface Answers {
  get(name: string): readonly Owner[] | undefined;
  set(name: string, owners: readonly Owner[]): void;
  delete(name: string): void;
  clear(): void;
}

/** Drops what was not used for longest. */
function createAnswers(most: number): Answers {
  const answers = new Map<string, readonly Owner[]>();
  let weight = 0;
  const weightOf = (owners: readonly Owner[]): number => 1 + owners.length;

  function drop(name: string): void {
    const owners = answers.get(name);
    if (owners === undefined) return;
    answers.delete(name);
    weight -= weightOf(owners);
  }

  return {
    get(name) {
      const owners = answers.get(name);
      if (owners === undefined) return undefined;
      answers.delete(name);
      answers.set(name, owners);
      return owners;
    },
    set(name, owners) {
      drop(name);
      answers.set(name, owners);
      weight += weightOf(owners);
      for (const oldest of answers.keys()) {
        if (weight <= most) break;
        drop(oldest);
      }
    },
    delete: drop,
    clear() {
      answers.clear();
      weight = 0;
    },
  };
}
