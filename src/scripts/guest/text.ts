/** Text and byte conversions that browsers and Node have, but the engine lacks. */

/** Encodes UTF-8, with U+FFFD for a lone surrogate. */
export function utf8(text: string): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(text.length * 3);
  let at = 0;
  for (let i = 0; i < text.length; i += 1) {
    let point = text.charCodeAt(i);
    if (point >= 0xd800 && point <= 0xdfff) {
      const next = text.charCodeAt(i + 1);
      if (point <= 0xdbff && next >= 0xdc00 && next <= 0xdfff) {
        point = 0x10000 + ((point - 0xd800) << 10) + (next - 0xdc00);
        i += 1;
      } else point = 0xfffd;
    }
    if (point < 0x80) bytes[at++] = point;
    else if (point < 0x800) {
      bytes[at++] = 0xc0 | (point >> 6);
      bytes[at++] = 0x80 | (point & 63);
    } else if (point < 0x10000) {
      bytes[at++] = 0xe0 | (point >> 12);
      bytes[at++] = 0x80 | ((point >> 6) & 63);
      bytes[at++] = 0x80 | (point & 63);
    } else {
      bytes[at++] = 0xf0 | (point >> 18);
      bytes[at++] = 0x80 | ((point >> 12) & 63);
      bytes[at++] = 0x80 | ((point >> 6) & 63);
      bytes[at++] = 0x80 | (point & 63);
    }
  }
  return bytes.slice(0, at);
}

/** Returns the number of continuation bytes, and the range of the first of them: Unicode, table 3-7. */
function sequence(first: number): readonly [more: number, least: number, most: number] | undefined {
  if (first >= 0xc2 && first <= 0xdf) return [1, 0x80, 0xbf];
  if (first >= 0xe0 && first <= 0xef) return [2, first === 0xe0 ? 0xa0 : 0x80, first === 0xed ? 0x9f : 0xbf];
  if (first >= 0xf0 && first <= 0xf4) return [3, first === 0xf0 ? 0x90 : 0x80, first === 0xf4 ? 0x8f : 0xbf];
  return undefined;
}

/** Decodes UTF-8; invalid bytes become U+FFFD, or throw if `isFatal`. */
export function fromUtf8(bytes: Uint8Array, isFatal = false): string {
  const pieces: string[] = [];
  let points: number[] = [];
  for (let i = 0; i < bytes.length; ) {
    const first = bytes[i] ?? 0;
    i += 1;
    let point = first;
    const form = first < 0x80 ? undefined : sequence(first);
    if (first >= 0x80) {
      let [left, least, most] = form ?? [0, 0, 0];
      point = form === undefined ? -1 : first & (0x3f >> left);
      for (; left > 0; left -= 1) {
        const next = bytes[i];
        if (next === undefined || next < least || next > most) {
          point = -1;
          break;
        }
        point = (point << 6) | (next & 63);
        i += 1;
        [least, most] = [0x80, 0xbf];
      }
    }
    if (point === -1 && isFatal) throw new TypeError("the bytes are not UTF-8");
    points.push(point === -1 ? 0xfffd : point);
    if (points.length === 4_096) {
      pieces.push(String.fromCodePoint(...points));
      points = [];
    }
  }
  pieces.push(String.fromCodePoint(...points));
  return pieces.join("");
}

const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const digits = new Map([...alphabet, "-", "_"].map((digit, i) => [digit, i > 63 ? i - 2 : i]));

export function base64(bytes: Uint8Array): string {
  const pieces: string[] = [];
  for (let i = 0; i < bytes.length; i += 3) {
    const [a = 0, b, c] = [bytes[i], bytes[i + 1], bytes[i + 2]];
    const four = (a << 16) | ((b ?? 0) << 8) | (c ?? 0);
    pieces.push(
      (alphabet[four >> 18] ?? "") +
        (alphabet[(four >> 12) & 63] ?? "") +
        (b === undefined ? "=" : (alphabet[(four >> 6) & 63] ?? "")) +
        (c === undefined ? "=" : (alphabet[four & 63] ?? "")),
    );
  }
  return pieces.join("");
}

export const base64url = (bytes: Uint8Array): string =>
  base64(bytes).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");

/** Decodes base64 of either alphabet. Skips other characters, as Node does. */
export function fromBase64(text: string): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(Math.ceil((text.length * 3) / 4));
  let [at, bits, held] = [0, 0, 0];
  for (const char of text) {
    if (char === "=") break;
    const digit = digits.get(char);
    if (digit === undefined) continue;
    held = ((held << 6) | digit) & 0xffffff;
    bits += 6;
    if (bits < 8) continue;
    bits -= 8;
    bytes[at++] = (held >> bits) & 255;
  }
  return bytes.slice(0, at);
}

export const hex = (bytes: Uint8Array): string =>
  Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");

export function fromHex(text: string): Uint8Array<ArrayBuffer> {
  const [good = ""] = /^(?:[\da-f]{2})*/i.exec(text) ?? [];
  return Uint8Array.from({ length: good.length / 2 }, (_, i) => Number.parseInt(good.slice(i * 2, i * 2 + 2), 16));
}

export function latin1(bytes: Uint8Array): string {
  const pieces: string[] = [];
  for (let i = 0; i < bytes.length; i += 4_096) pieces.push(String.fromCharCode(...bytes.subarray(i, i + 4_096)));
  return pieces.join("");
}

export const fromLatin1 = (text: string): Uint8Array<ArrayBuffer> =>
  Uint8Array.from({ length: text.length }, (_, i) => text.charCodeAt(i) & 255);

export class TextEncoder {
  readonly encoding = "utf-8";
  encode(text = ""): Uint8Array<ArrayBuffer> {
    return utf8(String(text));
  }
}

export class TextDecoder {
  readonly encoding: string;
  readonly #isFatal: boolean;
  readonly #keepsMark: boolean;

  constructor(label = "utf-8", { fatal = false, ignoreBOM = false } = {}) {
    const name = label.toLowerCase();
    if (!["utf-8", "utf8", "latin1", "iso-8859-1", "ascii"].includes(name)) {
      throw new RangeError(`TextDecoder supports utf-8 and latin1 in scripts, not ${label}`);
    }
    this.encoding = name.startsWith("utf") ? "utf-8" : "iso-8859-1";
    this.#isFatal = fatal;
    this.#keepsMark = ignoreBOM;
  }

  decode(given: ArrayBuffer | ArrayBufferView = new Uint8Array()): string {
    const bytes = ArrayBuffer.isView(given)
      ? new Uint8Array(given.buffer, given.byteOffset, given.byteLength)
      : new Uint8Array(given);
    if (this.encoding !== "utf-8") return latin1(bytes);
    const text = fromUtf8(bytes, this.#isFatal);
    return this.#keepsMark ? text : text.replace(/^\uFEFF/, "");
  }
}

/** `btoa` and `atob` as in browsers, including the error for characters beyond 255. */
export function btoa(text: string): string {
  if (/[^\0-\xff]/.test(text)) throw new RangeError("btoa accepts characters up to U+00FF; encode the text first");
  return base64(fromLatin1(text));
}

export function atob(text: string): string {
  const compact = String(text).replaceAll(/[\t\n\f\r ]/g, "");
  if (!/^[A-Za-z\d+/]*={0,2}$/.test(compact)) throw new RangeError("atob: the text is not valid base64");
  return latin1(fromBase64(compact));
}
