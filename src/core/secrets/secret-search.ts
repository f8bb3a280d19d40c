import { characterForms } from "./character-forms.ts";

/** Positions of secrets in bytes. */
export interface FoundSecrets {
  /** From, to, from, to. */
  readonly ranges: readonly number[];
  /** First position where a secret may have begun whose rest is still to come; the length if there is none. */
  readonly begun: number;
}

export interface SearchExtent {
  /** Start position; default: the beginning. */
  readonly from?: number;
  /** More bytes may follow. */
  readonly hasMore?: boolean;
}

/**
 * Searches bytes for secrets in each form in which a response may quote them: whole, or the first 32 characters of a
 * longer secret and any further ones that match.
 */
export interface SecretSearch {
  find(bytes: Uint8Array, extent?: SearchExtent): FoundSecrets;
  /**
   * Checks the name of a field. Compares only letters and digits, since other characters cannot appear in a name or are
   * replaced there.
   */
  isInName(name: string): boolean;
}

/** Shorter secrets would match everywhere. */
export const minSecretLength = 8;
/** This many characters identify a secret. Limits the work that a response can cause at each byte. */
const decisive = 32;
/**
 * Maximum number of readings tracked for the start of a secret; only a secret of nothing but special characters has
 * more.
 */
const maxReadings = 16;

/** Forms of a character, by first byte. */
type Forms = readonly (readonly Uint8Array[] | undefined)[];
type Needle = readonly Forms[];

const folded = Uint8Array.from({ length: 256 }, (_, byte) => (byte >= 65 && byte <= 90 ? byte | 0x20 : byte));

export function createSecretSearch(secrets: Iterable<string>): SecretSearch {
  const trimmed = [...secrets].map((secret) => secret.trim());
  const long = [...new Set(trimmed)].filter(({ length }) => length >= minSecretLength);
  const needles = [...new Set(long.flatMap(textsOf))].map(needleOf);
  const pairs = pairsOf(needles);
  const byFirst = Array.from({ length: 256 }, (_, byte): readonly Needle[] | undefined => {
    const beginning = needles.filter(([first]) => first?.[byte] !== undefined);
    return beginning.length === 0 ? undefined : beginning;
  });
  const skeletons = long.map(skeletonOf).filter(({ length }) => length >= minSecretLength);

  return {
    find(bytes, { from = 0, hasMore = false } = {}) {
      const ranges: number[] = [];
      let begun = bytes.length;
      for (let at = from; at < bytes.length; at += 1) {
        const first = folded[bytes[at] ?? 0] ?? 0;
        if (at + 1 < bytes.length && !hasPair(pairs, first, folded[bytes[at + 1] ?? 0] ?? 0)) continue;
        const candidates = byFirst[first];
        if (candidates === undefined) continue;
        let end = none;
        for (const needle of candidates) {
          const { to, isCut } = endOf(needle, bytes, at);
          if (isCut && hasMore) begun = Math.min(begun, at);
          if (to > end) end = to;
        }
        if (end === none) continue;
        ranges.push(at, end);
        at = end - 1;
      }
      return { ranges, begun };
    },
    isInName: (name) => {
      const skeleton = skeletonOf(name);
      return skeletons.some((one) => skeleton.includes(one));
    },
  };
}

const skeletonOf = (text: string): string => text.toLowerCase().replaceAll(/[^a-z0-9]/g, "");

/**
 * Returns the secret as is and reversed, in hex, and in base64 of either alphabet at each offset that it may have in a
 * longer text.
 */
function textsOf(secret: string): string[] {
  const bytes = Buffer.from(secret);
  return [secret, [...secret].reverse().join(""), bytes.toString("hex"), ...base64Of(bytes)];
}

/** Omits the letters that the secret shares with its neighbors. */
function base64Of(bytes: Buffer): string[] {
  return [0, 1, 2].flatMap((by) => {
    const text = Buffer.concat([Buffer.alloc(by), bytes]).toString("base64");
    const own = text.slice(by === 0 ? 0 : by + 1, Math.floor(((by + bytes.length) * 8) / 6));
    return [own, own.replaceAll("+", "-").replaceAll("/", "_")];
  });
}

/** Caches the forms of ASCII characters, which most secrets consist of. */
const known = new Map<string, Forms>();

const needleOf = (text: string): Needle =>
  [...text].map((character) => {
    const forms = known.get(character) ?? formsByFirst(character);
    if (character < "\x80") known.set(character, forms);
    return forms;
  });

/** Returns a bitmap of the first two bytes of all needles, to skip most of a response quickly. */
function pairsOf(needles: readonly Needle[]): Uint8Array {
  const pairs = new Uint8Array(65_536 / 8);
  const add = (first: number, second: number) => {
    const at = (first << 8) | second;
    pairs[at >> 3] = (pairs[at >> 3] ?? 0) | (1 << (at & 7));
  };
  for (const [begins, follows] of needles) {
    begins?.forEach((forms, first) => {
      for (const form of forms ?? []) {
        if (form.length > 1) add(first, form[1] ?? 0);
        else follows?.forEach((_, second) => void add(first, second));
      }
    });
  }
  return pairs;
}

const hasPair = (pairs: Uint8Array, first: number, second: number): boolean =>
  ((pairs[((first << 8) | second) >> 3] ?? 0) & (1 << (second & 7))) !== 0;

function formsByFirst(character: string): Forms {
  const forms: Uint8Array[][] = [];
  for (const form of characterForms(character)) {
    const bytes = Buffer.from(form, "latin1");
    const first = bytes[0] ?? 0;
    forms[first] = [...(forms[first] ?? []), bytes];
  }
  return forms;
}

const none = -1;

interface SecretEnd {
  /** End of the needle, or of its matching part; `none` if the part is too short to identify it. */
  readonly to: number;
  /** The rest of the needle may follow after these bytes. */
  readonly isCut: boolean;
}

function endOf(needle: Needle, bytes: Uint8Array, from: number): SecretEnd {
  let ends = [from];
  let isCut = false;
  for (let count = 0; count < needle.length; count += 1) {
    const forms = needle[count];
    const next: number[] = [];
    for (const at of ends) {
      if (at >= bytes.length) isCut = true;
      for (const form of forms?.[folded[bytes[at] ?? 0] ?? 0] ?? []) {
        const length = matched(form, bytes, at);
        if (length === form.length) {
          if (next.length < maxReadings && !next.includes(at + length)) next.push(at + length);
        } else if (at + length === bytes.length) {
          isCut = true;
        }
      }
    }
    if (next.length === 0) return { to: count < decisive ? none : Math.max(...ends), isCut };
    ends = next;
  }
  return { to: Math.max(...ends), isCut: false };
}

/** Returns how many bytes of a form match at this position. */
function matched(form: Uint8Array, bytes: Uint8Array, at: number): number {
  let length = 0;
  while (length < form.length && at + length < bytes.length && folded[bytes[at + length] ?? 0] === form[length])
    length += 1;
  return length;
}
