import type { NameValue } from "./scheme.ts";

/**
 * Percent-encodes for signatures: every byte except the unreserved ones of RFC 3986, section 2.3, in upper case (RFC
 * 5849, section 3.6; AWS's UriEncode is identical). Decoded text is handled as bytes, one per character, so that `%FF`
 * survives although it is not UTF-8.
 */
export const percentEncode = (text: string): string => encodeBytes(bytesOf(text));

const bytesOf = (text: string) => Buffer.from(text, "utf8").toString("latin1");
const encodeBytes = (bytes: string) => bytes.replace(/[^A-Za-z0-9\-._~]/g, (byte) => `%${hexOf(byte)}`);
const hexOf = (byte: string) => byte.charCodeAt(0).toString(16).toUpperCase().padStart(2, "0");
/** A percent sign that begins no escape is kept. */
const decodeToBytes = (raw: string) =>
  bytesOf(raw).replace(/%([0-9A-Fa-f]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));

/** Converts any spelling of a path or query to the one that is signed. A plus is a blank. */
export const recodeForm = (raw: string): string => encodeBytes(decodeToBytes(raw.replaceAll("+", " ")));

/** Returns the parameters of a query or form, recoded, in order. */
export function recodeParameters(raw: string): NameValue[] {
  const parameters = raw.split("&").filter((parameter) => parameter !== "");
  return parameters.map((parameter) => {
    const [name = "", ...value] = parameter.split("=");
    return [recodeForm(name), recodeForm(value.join("="))];
  });
}

/** Sorts by name and value, and joins as a query. Takes encoded parameters, whose characters are bytes. */
export const joinSorted = (parameters: readonly NameValue[]): string =>
  [...parameters]
    .sort(([a, x], [b, y]) => compare(a, b) || compare(x, y))
    .map(([name, value]) => `${name}=${value}`)
    .join("&");

/** Compares by code unit instead of locale: signatures sort by bytes. */
export const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);
