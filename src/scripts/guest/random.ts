import { Buffer } from "./buffer.ts";
import { host } from "./port.ts";
import { base64, fromBase64, fromHex, utf8 } from "./text.ts";

/** As a browser has it: more at once is refused. */
const mostBytes = 65_536;

function bytes(count: number): Uint8Array<ArrayBuffer> {
  if (count > mostBytes) throw new RangeError(`${mostBytes} random bytes at once are the most`);
  return fromHex(host("random", String(count), "") ?? "");
}

function randomUUID(): string {
  const some = bytes(16);
  // Version 4, variant 10: RFC 9562.
  some[6] = ((some[6] ?? 0) & 15) | 64;
  some[8] = ((some[8] ?? 0) & 63) | 128;
  const text = Array.from(some, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return text.replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}

function getRandomValues<T extends ArrayBufferView>(into: T): T {
  const view = new Uint8Array(into.buffer, into.byteOffset, into.byteLength);
  view.set(bytes(view.length));
  return into;
}

/** What every page has. */
export const crypto = { randomUUID, getRandomValues };

/** A digest is asked of the host when it is wanted; what was given is kept until then. */
class HostDigest {
  readonly #algorithm: string;
  readonly #key: Uint8Array | undefined;
  readonly #given: Uint8Array[] = [];

  constructor(algorithm: string, key?: Uint8Array) {
    this.#algorithm = algorithm;
    this.#key = key;
  }

  update(data: string | Uint8Array, encoding?: string): this {
    this.#given.push(typeof data === "string" ? Buffer.from(data, encoding) : data);
    return this;
  }

  digest(encoding?: string): string | Buffer {
    const about = { algorithm: this.#algorithm, key: this.#key === undefined ? null : base64(this.#key) };
    const made = host("digest", JSON.stringify(about), base64(Buffer.concat(this.#given)));
    if (made === undefined) throw new Error(`a script cannot make a digest by ${this.#algorithm}`);
    const result = Buffer.from(fromBase64(made));
    return encoding === undefined ? result : result.toString(encoding);
  }
}

/** As much of Node's `crypto` as scripts use: ids, random bytes, digests and their keyed form. */
export const nodeCrypto = {
  randomUUID,
  getRandomValues,
  randomBytes: (count: number) => Buffer.from(bytes(count)),
  createHash: (algorithm: string) => new HostDigest(algorithm),
  createHmac: (algorithm: string, key: string | Uint8Array) =>
    new HostDigest(algorithm, typeof key === "string" ? utf8(key) : key),
  webcrypto: crypto,
};

/**
 * Every run begins from the same picture of memory, and would draw the same numbers: xoshiro128** with a seed of the
 * host's own. Nothing secret is made of it; `crypto` is asked for that.
 */
export function seedMathRandom(): void {
  const state = new Uint32Array(bytes(16).buffer);
  const turn = (x: number, by: number) => (x << by) | (x >>> (32 - by));
  Math.random = () => {
    const [a = 0, b = 0, c = 0, d = 0] = state;
    const drawn = Math.imul(turn(Math.imul(b, 5), 7), 9) >>> 0;
    state[0] = a ^ d ^ b;
    state[1] = b ^ c ^ a;
    state[2] = c ^ a ^ (b << 9);
    state[3] = turn(d ^ b, 11);
    return drawn / 2 ** 32;
  };
}
