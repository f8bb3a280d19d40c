import { Buffer } from "./buffer.ts";
import { host } from "./port.ts";
import { base64, fromBase64, fromHex, utf8 } from "./text.ts";

/** The limit of browsers. */
const maxBytes = 65_536;

function bytes(count: number): Uint8Array<ArrayBuffer> {
  if (count > maxBytes) throw new RangeError(`at most ${maxBytes} random bytes can be requested at once`);
  return fromHex(host("random", String(count), "") ?? "");
}

function randomUUID(): string {
  const random = bytes(16);
  // Version 4, variant 10: RFC 9562.
  random[6] = ((random[6] ?? 0) & 15) | 64;
  random[8] = ((random[8] ?? 0) & 63) | 128;
  const text = Array.from(random, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return text.replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}

function getRandomValues<T extends ArrayBufferView>(into: T): T {
  const view = new Uint8Array(into.buffer, into.byteOffset, into.byteLength);
  view.set(bytes(view.length));
  return into;
}

/** The part of `crypto` that browsers have. */
export const crypto = { randomUUID, getRandomValues };

/** Collects data; the host computes the digest when it is read. */
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
    if (made === undefined) throw new Error(`the digest algorithm "${this.#algorithm}" is not supported`);
    const result = Buffer.from(fromBase64(made));
    return encoding === undefined ? result : result.toString(encoding);
  }
}

/** The part of Node's `crypto` that scripts use: IDs, random bytes, hashes and HMACs. */
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
 * Every run starts from the same memory snapshot, and would produce the same numbers: so this seeds xoshiro128** with
 * random bytes from the host. Not for secrets; use `crypto` for those.
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
