/** Bytes of a field name in HTTP/2: a token (RFC 9110, 5.6.2) without upper-case letters (RFC 9113, 8.2.1). */
const nameBytes = tableOf("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz");
const colon = 58;
const space = 32;
const tab = 9;

function tableOf(allowed: string): Uint8Array {
  const table = new Uint8Array(256);
  for (const sign of allowed) table[sign.charCodeAt(0)] = 1;
  return table;
}

/** Accepts the names of pseudo-header fields, too, which begin with a colon. */
export function isFieldName(bytes: Uint8Array, from: number, to: number): boolean {
  const begin = bytes[from] === colon ? from + 1 : from;
  if (begin >= to) return false;
  for (let i = begin; i < to; i += 1) if (nameBytes[bytes[i] as number] === 0) return false;
  return true;
}

/**
 * RFC 9110, 5.5: visible bytes, spaces and tabs. Blanks at an end are not allowed (RFC 9113, 8.2.1) but common, as in
 * policies that a server's configuration ends with a blank: they are left to the reader.
 */
export function isFieldValue(bytes: Uint8Array, from: number, to: number): boolean {
  for (let i = from; i < to; i += 1) {
    const byte = bytes[i] as number;
    if ((byte < space && byte !== tab) || byte === 127) return false;
  }
  return true;
}
