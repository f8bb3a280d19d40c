import { fromBinary } from "@bufbuild/protobuf";
import { BinaryReader } from "@bufbuild/protobuf/wire";
import { timestampMs } from "@bufbuild/protobuf/wkt";
import { createLateCache } from "../../base/caches/late-cache.ts";
import { type AccessSession, AccessSessionSchema } from "../../gen/latchkey/v1/access_session_pb.ts";

/** The sessions that can be used, in memory: a short hash of each token, and the encoded session as text. */
export interface SessionMemory<T> {
  readonly size: number;
  /** Returns what was made of a session, by the short hash of its token; undefined if it is not known. */
  get(digest: string): T | undefined;
  /** Does the same for a session that was used lately, and does not count as a use. */
  peek(digest: string): T | undefined;
  /** Keeps a session as it is stored. */
  put(id: string, stored: Uint8Array): void;
  delete(id: string): void;
  clear(): void;
  /** All sessions that are decoded now. */
  decoded(): Iterable<T>;
  /** All sessions, with the keys that created them. */
  creators(): Iterable<SessionCreator>;
}

export interface SessionCreator {
  readonly id: string;
  readonly createdBy: string;
  readonly keyMark: Uint8Array;
}

interface SessionMemoryOptions<T> {
  /** Makes the object for callers from a session that is used. */
  readonly use: (session: AccessSession) => T;
  /** Called for an object that will not be returned again. */
  readonly drop: (used: T) => void;
  readonly maxDecoded?: number;
}

/** Sessions in use at a time; each takes about 2 KB. */
const usualDecoded = 10_000;

/**
 * Decoded sessions would take 2 KB each. Strings with one byte a character take 16 bytes more than their content, and
 * nothing else of the collector's time.
 */
export function createSessionMemory<T extends object>(options: SessionMemoryOptions<T>): SessionMemory<T> {
  const { use, drop, maxDecoded = usualDecoded } = options;
  const encoded = new Map<string, string>();
  const decoded = createLateCache<T>({ max: maxDecoded, dispose: drop });

  return {
    get size() {
      return encoded.size;
    },
    get(digest) {
      const known = decoded.get(digest);
      if (known !== undefined) return known;
      const text = encoded.get(digest);
      if (text === undefined) return undefined;
      const session = fromBinary(AccessSessionSchema, Buffer.from(text, "latin1"));
      session.id = Buffer.from(digest, "latin1").toString("hex");
      const made = use(session);
      decoded.set(digest, made);
      return made;
    },
    peek: (digest) => decoded.peek(digest),
    put(id, stored) {
      const digest = digestOfId(id);
      decoded.delete(digest);
      encoded.set(digest, checkedFieldsOf(stored).toString("latin1"));
    },
    delete(id) {
      const digest = digestOfId(id);
      decoded.delete(digest);
      encoded.delete(digest);
    },
    clear() {
      decoded.clear();
      encoded.clear();
    },
    decoded: () => decoded.values(),
    *creators() {
      for (const [digest, text] of encoded) {
        const bytes = Buffer.from(text, "latin1");
        yield { id: Buffer.from(digest, "latin1").toString("hex"), ...creatorIn(bytes) };
      }
    },
  };
}

const digestOfId = (id: string): string => Buffer.from(id, "hex").toString("latin1");

/** Returns the fields that are checked with each use. A stored session is not decoded: that would take 20 times as long. */
function checkedFieldsOf(stored: Uint8Array): Buffer {
  const reader = new BinaryReader(stored);
  const kept: Uint8Array[] = [];
  while (reader.pos < reader.len) {
    const from = reader.pos;
    const [field, wireType] = reader.tag();
    reader.skip(wireType, field);
    if (checkedFields.has(field)) kept.push(stored.subarray(from, reader.pos));
  }
  return Buffer.concat(kept);
}

const { environment, limits, scopes, audience, expiresAt, budget, createdBy, keyMark } = AccessSessionSchema.field;
const checkedFields = new Set(
  [environment, limits, scopes, audience, expiresAt, budget, createdBy, keyMark].map(({ number }) => number),
);

/** Reads two fields, without decoding the others. */
function creatorIn(encoded: Uint8Array): Omit<SessionCreator, "id"> {
  const reader = new BinaryReader(encoded);
  const found: { createdBy: string; keyMark: Uint8Array } = { createdBy: "", keyMark: new Uint8Array() };
  while (reader.pos < reader.len) {
    const [field, wireType] = reader.tag();
    if (field === createdBy.number) found.createdBy = reader.string();
    else if (field === keyMark.number) found.keyMark = reader.bytes();
    else reader.skip(wireType, field);
  }
  return found;
}

export const keyMarkOf = ({ keyMark: mark }: Pick<AccessSession, "keyMark">): string =>
  Buffer.from(mark.buffer, mark.byteOffset, mark.byteLength).toString("hex");

export const expiryOf = ({ expiresAt }: AccessSession): number =>
  expiresAt === undefined ? 0 : timestampMs(expiresAt);
