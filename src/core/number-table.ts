/**
 * Numbers, found again by a hash of what they stand for: open addressing, four bytes a slot. It is in segments, each
 * of which grows and shrinks by itself: one table of a million would hold up everybody while it grows.
 */
export interface NumberTable {
  /** 0: none that has this hash is it. */
  find(hash: number, isIt: (number: number) => boolean): number;
  /** One that is not in it, and not 0. */
  add(hash: number, number: number): void;
  /** `to` stands where `from` stood. */
  replace(hash: number, from: number, to: number): void;
  remove(hash: number, number: number): void;
  readonly bytes: number;
}

const segmentBits = 10;
const fewestSlots = 16;

/** `hashOf` says of each number in it the 32 bits that it was added with. */
export function createNumberTable(hashOf: (number: number) => number): NumberTable {
  const segments: Uint32Array[] = Array.from({ length: 1 << segmentBits }, () => new Uint32Array(0));
  const counts = new Uint32Array(1 << segmentBits);
  let slots = 0;

  const segmentOf = (hash: number): number => hash >>> (32 - segmentBits);

  /** Where it stands, or the free slot at which a search for it ends. */
  function slotOf(segment: Uint32Array, hash: number, number: number): number {
    const mask = segment.length - 1;
    let at = hash & mask;
    for (;;) {
      const there = segment[at];
      if (there === number || there === 0) return at;
      at = (at + 1) & mask;
    }
  }

  function resize(which: number, length: number): Uint32Array {
    const old = segments[which] ?? new Uint32Array(0);
    const grown = new Uint32Array(length);
    for (const number of old) {
      if (number !== 0) grown[slotOf(grown, hashOf(number), number)] = number;
    }
    slots += length - old.length;
    segments[which] = grown;
    return grown;
  }

  return {
    find(hash, isIt) {
      const segment = segments[segmentOf(hash)];
      if (segment === undefined || segment.length === 0) return 0;
      const mask = segment.length - 1;
      for (let at = hash & mask; ; at = (at + 1) & mask) {
        const number = segment[at] ?? 0;
        if (number === 0 || isIt(number)) return number;
      }
    },
    add(hash, number) {
      const which = segmentOf(hash);
      const count = (counts[which] ?? 0) + 1;
      let segment = segments[which] ?? new Uint32Array(0);
      // Three quarters full: more, and runs become long.
      if (count * 4 > segment.length * 3) segment = resize(which, Math.max(fewestSlots, segment.length * 2));
      segment[slotOf(segment, hash, number)] = number;
      counts[which] = count;
    },
    replace(hash, from, to) {
      const segment = segments[segmentOf(hash)];
      if (segment === undefined || segment.length === 0) return;
      const at = slotOf(segment, hash, from);
      if (segment[at] === from) segment[at] = to;
    },
    remove(hash, number) {
      const which = segmentOf(hash);
      const segment = segments[which];
      if (segment === undefined || segment.length === 0) return;
      const mask = segment.length - 1;
      let gap = slotOf(segment, hash, number);
      if (segment[gap] !== number) return;
      // What follows moves up, where its own place allows it: there are no tombstones to probe past.
      for (let at = (gap + 1) & mask; ; at = (at + 1) & mask) {
        const next = segment[at] ?? 0;
        if (next === 0) break;
        if (((at - hashOf(next)) & mask) >= ((at - gap) & mask)) {
          segment[gap] = next;
          gap = at;
        }
      }
      segment[gap] = 0;
      const count = (counts[which] ?? 1) - 1;
      counts[which] = count;
      if (count === 0) resize(which, 0);
      else if (segment.length > fewestSlots && count * 8 < segment.length) resize(which, segment.length / 2);
    },
    get bytes() {
      return slots * 4;
    },
  };
}
