import { crc32 } from "node:zlib";

/** A Bloom filter that grows: keys that were never added are found with a probability of 1 % to 7 %. */
export interface KeyFilter {
  /** False: the key was never added. */
  has(key: string): boolean;
  /** Returns false, and adds nothing, if the filter is full. */
  add(key: string): boolean;
  readonly bytes: number;
}

interface Layer {
  readonly bits: Uint32Array;
  readonly mask: number;
  /** Keys that still fit. */
  left: number;
}

const firstBits = 2 ** 20;
const bitsOfKey = 10;
const probes = 7;
/** 6.6 million keys in 16 MiB. */
const mostLayers = 7;

/** `mayGrow` is asked for each further piece of memory. */
export function createKeyFilter(mayGrow: (bytes: number) => boolean): KeyFilter {
  const layers: Layer[] = [];
  let bytes = 0;

  function grow(): Layer | undefined {
    const size = firstBits * 2 ** layers.length;
    if (layers.length === mostLayers || !mayGrow(size / 8)) return undefined;
    bytes += size / 8;
    const layer = { bits: new Uint32Array(size / 32), mask: size - 1, left: Math.floor(size / bitsOfKey) };
    layers.push(layer);
    return layer;
  }

  return {
    has(key) {
      const hash = crc32(key);
      for (const layer of layers) if (isIn(layer, hash)) return true;
      return false;
    },
    add(key) {
      const newest = layers.at(-1);
      const layer = newest === undefined || newest.left === 0 ? grow() : newest;
      if (layer === undefined) return false;
      layer.left -= 1;
      put(layer, crc32(key));
      return true;
    },
    get bytes() {
      return bytes;
    },
  };
}

function isIn({ bits, mask }: Layer, hash: number): boolean {
  const first = mixed(hash);
  const step = mixed(hash ^ 0x9e3779b9) | 1;
  for (let i = 0; i < probes; i += 1) {
    const at = (first + Math.imul(i, step)) & mask;
    if (((bits[at >>> 5] ?? 0) & (1 << (at & 31))) === 0) return false;
  }
  return true;
}

function put({ bits, mask }: Layer, hash: number): void {
  const first = mixed(hash);
  const step = mixed(hash ^ 0x9e3779b9) | 1;
  for (let i = 0; i < probes; i += 1) {
    const at = (first + Math.imul(i, step)) & mask;
    bits[at >>> 5] = (bits[at >>> 5] ?? 0) | (1 << (at & 31));
  }
}

/** The end of MurmurHash3: each bit of a checksum decides each bit of the result. */
function mixed(hash: number): number {
  const once = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  const twice = Math.imul(once ^ (once >>> 13), 0xc2b2ae35);
  return twice ^ (twice >>> 16);
}
