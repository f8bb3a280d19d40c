import { hash, randomBytes } from "node:crypto";
import { crc32 } from "node:zlib";

/** Returns 128 random bits as URL-safe text. */
export const randomId = (): string => randomBytes(16).toString("base64url");

/** Returns an API key: 192 random bits and a checksum, by which scanners for leaked secrets recognize keys. */
export const newSecretKey = (): string => newSecret("lk_");

/** Returns the token of an access session, made like a key. */
export const newSessionToken = (): string => newSecret(sessionTokenPrefix);

export const sessionTokenPrefix = "lks_";

function newSecret(prefix: string): string {
  const body = randomBytes(24).toString("base64url");
  return `${prefix}${body}${checksumOf(body)}`;
}

function checksumOf(body: string): string {
  const checksum = Buffer.alloc(4);
  checksum.writeUInt32BE(crc32(body));
  return checksum.toString("base64url");
}

/** Returns whether a text can be the token of an access session. Random guesses are refused without a lookup. */
export function isSessionToken(text: string): boolean {
  const [, body = "", checksum] = /^lks_([A-Za-z0-9_-]{32})([A-Za-z0-9_-]{6})$/.exec(text) ?? [];
  return checksum !== undefined && checksumOf(body) === checksum;
}

/** Returns the first 16 bytes of the hash of a token as latin1: one byte a character, for large maps. */
export const shortDigestOf = (secret: string): string => hash("sha256", secret, "binary").slice(0, 16);

/** Returns the stored hash of a key. Keys are long and random, so one pass of SHA-256 is enough. */
export const digestOf = (secret: string): string => hash("sha256", secret);

/** Random bytes are read in large pieces: each call costs 2 µs. */
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
/** Time part. */
const timeDigits = 9;
let lastTimeText = "";
let sequence = 0;
/** Counter part: four digits. */
const sequences = 36 ** 4;
/** Room for further IDs of the same millisecond. */
const firstSequences = sequences / 2;

/** Returns an ID that sorts by creation time; strictly within one process. */
export function sequentialId(now: number): string {
  if (now > lastTime) {
    setTime(now);
    // Replicas create IDs in the same millisecond: 19 more random bits tell them apart.
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
  lastTimeText = timeText(time);
}

const timeText = (time: number): string => time.toString(36).padStart(timeDigits, "0");

/** Returns where the IDs of this time begin: IDs created before it sort before this text. */
export const sequentialIdsFrom = (time: number): string =>
  timeText(Math.min(Math.max(0, Math.trunc(time)), 36 ** timeDigits - 1));
