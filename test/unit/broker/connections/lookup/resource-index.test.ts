import { hash } from "node:crypto";
import { expect, it } from "vitest";
import { digestBytes } from "../../../../../src/broker/connections/lookup/digest-postings.ts";
import type { Owner } from "../../../../../src/broker/connections/lookup/indexed-owners.ts";
import {
  createResourceIndex,
  type ResourceIndex,
} from "../../../../../src/broker/connections/lookup/resource-index.ts";

const digestOf = (value: string): Uint8Array => hash("sha256", value, "buffer").subarray(0, digestBytes);
const filedUnder = (values: Iterable<string>): Uint8Array =>
  Buffer.concat([...new Set(values)].map(digestOf).sort(Buffer.compare));
const matchOf = (index: ResourceIndex, value: string) => index.match(Buffer.from(digestOf(value)).toString("latin1"));
const at = (id: string, integration = "calendar", environment = "dev"): Owner => ({ environment, integration, id });
const nameOf = ({ environment, integration, id }: Owner) => `${environment}/${integration}/${id}`;
const namesOf = (owners: readonly Owner[]) => owners.map(nameOf).sort();

/** Numbers that look random and are the same for a seed. */
function chooser(seed: number) {
  let state = seed;
  return (below: number): number => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

const idForms: readonly ((n: number) => string)[] = [
  (n) => `c${n}`,
  (n) => `user-${n}@example.com`,
  (n) => `${String(n).padStart(8, "0")}-aaaa-4bbb-8ccc-0123456789ab`,
  // Not in the form of a UUID: it must be returned unchanged.
  (n) => `${String(n).padStart(8, "0")}-AAAA-4bbb-8ccc-0123456789ab`,
  (n) => `${"x".repeat(250)}${n}`,
];

it.each(Array.from({ length: 24 }, (_, seed) => seed))(
  "says what a Map would say, whatever is done to it (%i)",
  (seed) => {
    const choose = chooser(seed * 7_919 + 1);
    const index = createResourceIndex();
    const model = new Map<string, { readonly owner: Owner; readonly values: ReadonlySet<string> }>();
    // Few distinct ones in some runs, so that they collide; many in others, so that the index grows.
    const [ids, values] = [[20, 500][seed % 2] ?? 0, [15, 400, 5_000][seed % 3] ?? 0];
    const anyOwner = () => {
      const n = choose(ids);
      const id = idForms[n % idForms.length]?.(n) ?? "";
      return at(id, ["calendar", "drive", "a"][choose(3)], ["dev", "prod"][choose(2)]);
    };
    const ownersOf = (value: string) =>
      [...model.values()].filter((filed) => filed.values.has(value)).map(({ owner }) => owner);

    for (let step = 0; step < 2_000; step += 1) {
      const owner = anyOwner();
      const isLeaving = choose(10) < (step % 1_000 < 700 ? 2 : 8);
      if (isLeaving) {
        index.remove(owner);
        model.delete(nameOf(owner));
      } else {
        const before = model.get(nameOf(owner))?.values ?? new Set();
        // Some stay, as when a watched resource is added to a list.
        const kept = [...before].filter(() => choose(3) > 0);
        const some = new Set([...kept, ...Array.from({ length: choose(12) }, () => `v${choose(values)}`)]);
        index.put(owner, filedUnder(some));
        if (some.size === 0) model.delete(nameOf(owner));
        else model.set(nameOf(owner), { owner, values: some });
      }
      const value = `v${choose(values)}`;
      expect(namesOf(matchOf(index, value))).toEqual(namesOf(ownersOf(value)));
    }
    for (let n = 0; n < values; n += 1) {
      expect(namesOf(matchOf(index, `v${n}`))).toEqual(namesOf(ownersOf(`v${n}`)));
    }
    expect(index.owners).toBe(model.size);
    expect(index.entries).toBe([...model.values()].reduce((sum, filed) => sum + filed.values.size, 0));
    for (const { owner } of model.values()) index.remove(owner);
    expect({ owners: index.owners, entries: index.entries, bytes: index.bytes }).toEqual({
      owners: 0,
      entries: 0,
      bytes: 0,
    });
  },
);

it("takes up no more after a hundred generations of connections than after a few", () => {
  const index = createResourceIndex();
  // One stays, so that the index is never empty and never starts again.
  index.put(at("the-one-that-stays"), filedUnder(["x"]));
  const generation = (g: number) => {
    const ownerOf = (n: number) => at(`g${g}-${n}`, `integration-${g}`);
    for (let n = 0; n < 700; n += 1) index.put(ownerOf(n), filedUnder([`a${g}-${n}`, `b${n}`, `c${n % 7}`]));
    for (let n = 0; n < 700; n += 1) index.remove(ownerOf(n));
  };
  for (let g = 0; g < 5; g += 1) generation(g);
  const early = index.bytes;
  for (let g = 10; g < 100; g += 1) generation(g);
  expect(index.bytes).toBe(early);
  expect(index.owners).toBe(1);
  expect(namesOf(matchOf(index, "x"))).toEqual(["dev/calendar/the-one-that-stays"]);
});

it("finds a connection by its current entries, and not by earlier ones", () => {
  const index = createResourceIndex();
  index.put(at("ada"), filedUnder(["a", "b", "c"]));
  index.put(at("ada"), filedUnder(["b", "d"]));
  expect(["a", "b", "c", "d"].map((value) => matchOf(index, value).length)).toEqual([0, 1, 0, 1]);
  index.put(at("ada"), filedUnder([]));
  expect(index.owners).toBe(0);
});

it("finds all connections of a value, also after one was removed", () => {
  const index = createResourceIndex();
  const all = Array.from({ length: 1_000 }, (_, n) => at(`c${n}`));
  for (const owner of all) index.put(owner, filedUnder(["shared", `own-${owner.id}`]));
  // From the ends and the middle of the list of connections that share it.
  for (const n of [0, 999, 500, 1, 998]) index.remove(at(`c${n}`));
  const left = all.filter((_, n) => ![0, 999, 500, 1, 998].includes(n));
  expect(namesOf(matchOf(index, "shared"))).toEqual(namesOf(left));
});

it("distinguishes digests that differ in one bit", () => {
  const index = createResourceIndex();
  const digest = Buffer.alloc(digestBytes, 0x80);
  index.put(at("ada"), digest);
  for (let bit = 0; bit < digestBytes * 8; bit += 1) {
    const other = Buffer.from(digest);
    other[bit >>> 3] = (other[bit >>> 3] ?? 0) ^ (1 << (bit & 7));
    expect(index.match(other.toString("latin1"))).toEqual([]);
  }
  expect(index.match(digest.toString("latin1"))).toEqual([at("ada")]);
});
