import { hash, randomBytes } from "node:crypto";
import { crc32 } from "node:zlib";

/** 128 unguessable bits, fit for a URL. */
export const randomId = (): string => randomBytes(16).toString("base64url");

/** A key for a caller: 192 random bits and a checksum, so that a scanner of leaked text can tell it from noise. */
export function newSecretKey(): string {
  const body = randomBytes(24).toString("base64url");
  const checksum = Buffer.alloc(4);
  checksum.writeUInt32BE(crc32(body));
  return `lk_${body}${checksum.toString("base64url")}`;
}

/** What is kept of a key. Keys are random and long, so that one pass of SHA-256 is enough. */
export const digestOf = (secret: string): string => hash("sha256", secret);

/** Random bytes are asked for in large pieces: it is the asking that costs, 2 µs each time. */
let pool = Buffer.alloc(0);
let taken = 0;
function randomHex(bytes: number): string {
  if (taken + bytes > pool.length) {
    pool = randomBytes(4_096);
    taken = 0;
  }
  taken += bytes;
  return pool.toString("hex", taken - bytes, taken);
}

let lastTime = 0;
/** In nine digits. */
let lastTimeText = "";
let sequence = 0;
/** Of four digits. */
const sequences = 36 ** 4;
/** As many are left for those that follow in the same millisecond. */
const firstSequences = sequences / 2;

/** An id that sorts by the time it was made, and within one process strictly so. */
export function sequentialId(now: number): string {
  if (now > lastTime) {
    setTime(now);
    // Replicas make theirs in the same millisecond: 19 bits more by which two of those differ.
    sequence = Number.parseInt(randomHex(3), 16) % firstSequences;
  } else if (sequence < sequences - 1) {
    sequence += 1;
  } else {
    setTime(lastTime + 1);
    sequence = 0;
  }
  return `${lastTimeText}${sequence.toString(36).padStart(4, "0")}${randomHex(4)}`;
}

function setTime(time: number): void {
  lastTime = time;
  lastTimeText = time.toString(36).padStart(9, "0");
}
