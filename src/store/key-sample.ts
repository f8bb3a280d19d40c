/** Ids are at the end of keys. */
const sampledChars = 10;

/**
 * Returns 32 bits for a key: the same for equal keys, and most often others for another key. They are taken from its
 * length and its last characters, which costs a tenth of the hash that a Map or Set needs of a new text.
 */
export function keySample(key: string): number {
  const { length } = key;
  let sample = length;
  for (let i = length > sampledChars ? length - sampledChars : 0; i < length; i += 1) {
    sample = Math.imul(sample, 31) + key.charCodeAt(i);
  }
  const mixed = Math.imul(sample ^ (sample >>> 16), 0x85ebca6b);
  return (mixed ^ (mixed >>> 13)) >>> 0;
}

const slots = 16_384;
const mostSets = 0x1_0000;
const marks = new Uint32Array(slots);
/** In place of the end of a sample, where keys with different ones share a slot. */
const any = 0;
let sets = 0;
let latest: KeySamples | undefined;

/**
 * Samples of keys that belong together, for a short time: all sets share one table, in which the latest takes the place
 * of the ones before.
 */
export class KeySamples {
  readonly #set: number;

  constructor() {
    sets = (sets + 1) % mostSets;
    this.#set = sets;
    latest = this;
  }

  add(key: string): void {
    if (this !== latest) return;
    const sample = keySample(key);
    const slot = sample % slots;
    const mark = marks[slot] ?? 0;
    const end = (sample >>> 16) | 1;
    if (mark >>> 16 !== this.#set) marks[slot] = ((this.#set << 16) | end) >>> 0;
    else if ((mark & 0xffff) !== end) marks[slot] = ((this.#set << 16) | any) >>> 0;
  }

  /** False: the key was certainly not added. Always true once there is a later set. */
  mayHave(key: string): boolean {
    if (this !== latest) return true;
    const sample = keySample(key);
    const mark = marks[sample % slots] ?? 0;
    if (mark >>> 16 !== this.#set) return false;
    const end = mark & 0xffff;
    return end === any || end === ((sample >>> 16) | 1);
  }
}
