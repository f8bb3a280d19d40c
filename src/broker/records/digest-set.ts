/**
 * A set of millions of digests, by their first 64 bits: 8 bytes each, and at most as much again of free space. Two
 * digests with the same first 64 bits count as one: among ten million, that happens once in 370,000 sets.
 */
export interface DigestSet {
  add(digest: Uint8Array): void;
  has(digest: Uint8Array): boolean;
  readonly count: number;
  readonly bytes: number;
}

/** Each part grows by itself, so that at most one part is copied at a time. */
const parts = 256;
const initialSlots = 4;
/** Grows from three quarters full to half full: at most 16 bytes a digest, except for the first few. */
const maxLoad = 0.75;
const growth = 1.5;

interface DigestSegment {
  /** Two words a slot; both are 0 in a free slot. */
  words: Uint32Array;
  slots: number;
  count: number;
}

export function createDigestSet(): DigestSet {
  const all: DigestSegment[] = Array.from({ length: parts }, () => ({ words: new Uint32Array(0), slots: 0, count: 0 }));
  let count = 0;

  return {
    add(digest) {
      const { part, high, low } = wordsOf(all, digest);
      if (part.count + 1 > part.slots * maxLoad) grow(part);
      if (!put(part, high, low)) return;
      part.count += 1;
      count += 1;
    },
    has(digest) {
      const { part, high, low } = wordsOf(all, digest);
      if (part.slots === 0) return false;
      const slot = slotOf(part, high, low);
      return part.words[slot * 2] === high && part.words[slot * 2 + 1] === low;
    },
    get count() {
      return count;
    },
    get bytes() {
      return all.reduce((sum, { words }) => sum + words.byteLength, 0);
    },
  };
}

function wordsOf(all: readonly DigestSegment[], digest: Uint8Array) {
  const view = new DataView(digest.buffer, digest.byteOffset, 8);
  const part = all[digest[0] ?? 0];
  if (part === undefined) throw new Error("there is a part for each first byte");
  const high = view.getUint32(0);
  // Never 0, which marks a free slot.
  return { part, high, low: view.getUint32(4) || 1 };
}

/** The digest's own slot, or the free slot for it. */
function slotOf({ words, slots }: DigestSegment, high: number, low: number): number {
  let slot = low % slots;
  for (;;) {
    const [first, second] = [words[slot * 2], words[slot * 2 + 1]];
    if ((first === high && second === low) || (first === 0 && second === 0)) return slot;
    slot = slot + 1 === slots ? 0 : slot + 1;
  }
}

function put(part: DigestSegment, high: number, low: number): boolean {
  const slot = slotOf(part, high, low);
  if (part.words[slot * 2 + 1] !== 0) return false;
  part.words[slot * 2] = high;
  part.words[slot * 2 + 1] = low;
  return true;
}

function grow(part: DigestSegment): void {
  const { words } = part;
  part.slots = Math.max(initialSlots, Math.ceil(part.slots * growth));
  part.words = new Uint32Array(part.slots * 2);
  for (let at = 0; at < words.length; at += 2) {
    const low = words[at + 1] ?? 0;
    if (low !== 0) put(part, words[at] ?? 0, low);
  }
}
