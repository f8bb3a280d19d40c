/** Writes ASN.1 values in DER (ITU-T X.690), as far as certificates need them. */

const tags = {
  boolean: 0x01,
  integer: 0x02,
  bitString: 0x03,
  octetString: 0x04,
  oid: 0x06,
  utf8: 0x0c,
  utcTime: 0x17,
  generalizedTime: 0x18,
  sequence: 0x30,
  set: 0x31,
} as const;

/** A value of this tag that consists of these parts. */
export function tagged(tag: number, ...parts: readonly Uint8Array[]): Buffer {
  const content = Buffer.concat(parts);
  return Buffer.concat([Buffer.from([tag]), lengthOf(content.length), content]);
}

function lengthOf(length: number): Buffer {
  if (length < 0x80) return Buffer.from([length]);
  const bytes: number[] = [];
  for (let rest = length; rest > 0; rest = Math.floor(rest / 256)) bytes.unshift(rest % 256);
  return Buffer.from([0x80 | bytes.length, ...bytes]);
}

export const sequence = (...parts: readonly Uint8Array[]): Buffer => tagged(tags.sequence, ...parts);
export const setOf = (...parts: readonly Uint8Array[]): Buffer => tagged(tags.set, ...parts);
export const octets = (...parts: readonly Uint8Array[]): Buffer => tagged(tags.octetString, ...parts);
export const utf8 = (text: string): Buffer => tagged(tags.utf8, Buffer.from(text));
export const isTrue = tagged(tags.boolean, Buffer.from([0xff]));

/** A positive number, from its bytes. */
export function positive(bytes: Uint8Array): Buffer {
  let from = 0;
  while (from < bytes.length - 1 && bytes[from] === 0) from += 1;
  const rest = bytes.subarray(from);
  // A first bit that is set would make the number negative.
  return tagged(tags.integer, ...((rest[0] ?? 0) >= 0x80 ? [Buffer.from([0])] : []), rest);
}

/** `unused` counts the bits at the end that do not count. */
export const bits = (bytes: Uint8Array, unused = 0): Buffer => tagged(tags.bitString, Buffer.from([unused]), bytes);

/** An object identifier, such as `2.5.4.3`. */
export function oid(dotted: string): Buffer {
  const [first = 0, second = 0, ...rest] = dotted.split(".").map(Number);
  return tagged(tags.oid, Buffer.from([first * 40 + second, ...rest.flatMap(inSevenBits)]));
}

function inSevenBits(number: number): number[] {
  const bytes = [number % 128];
  for (let rest = Math.floor(number / 128); rest > 0; rest = Math.floor(rest / 128)) bytes.unshift(0x80 | (rest % 128));
  return bytes;
}

/** A time to the second. RFC 5280, 4.1.2.5: two digits of the year through 2049. */
export function time(ms: number): Buffer {
  const digits = new Date(ms).toISOString().replaceAll(/[-:T]|\.\d+/g, "");
  return Number(digits.slice(0, 4)) < 2050
    ? tagged(tags.utcTime, Buffer.from(digits.slice(2)))
    : tagged(tags.generalizedTime, Buffer.from(digits));
}
