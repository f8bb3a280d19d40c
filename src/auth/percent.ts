import type { NameValue } from "./scheme.ts";

/**
 * Percent-encoding as signatures want it: every byte but the unreserved ones of RFC 3986, section 2.3, in upper case
 * (RFC 5849, section 3.6, and AWS's UriEncode are one and the same). What is decoded goes through as bytes, one
 * character each, so that `%FF` stays what it is though no UTF-8 has it.
 */
export const percentEncode = (text: string): string => encodeBytes(bytesOf(text));

const bytesOf = (text: string) => Buffer.from(text, "utf8").toString("latin1");
const encodeBytes = (bytes: string) => bytes.replace(/[^A-Za-z0-9\-._~]/g, (byte) => `%${hexOf(byte)}`);
const hexOf = (byte: string) => byte.charCodeAt(0).toString(16).toUpperCase().padStart(2, "0");
/** A percent sign that begins no escape stands for itself. */
const decodeToBytes = (raw: string) =>
  bytesOf(raw).replace(/%([0-9A-Fa-f]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));

/** What is in a path or a query, however it was spelt, in the one spelling that is signed. A plus is a blank. */
export const recodeForm = (raw: string): string => encodeBytes(decodeToBytes(raw.replaceAll("+", " ")));

/** The parameters of a query or a form, recoded, in the order in which they stand. */
export function recodeParameters(raw: string): NameValue[] {
  const parameters = raw.split("&").filter((parameter) => parameter !== "");
  return parameters.map((parameter) => {
    const [name = "", ...value] = parameter.split("=");
    return [recodeForm(name), recodeForm(value.join("="))];
  });
}

/** Sorted by name and then by value, and joined as a query. Of encoded parameters, whose characters are bytes. */
export const joinSorted = (parameters: readonly NameValue[]): string =>
  [...parameters]
    .sort(([a, x], [b, y]) => compare(a, b) || compare(x, y))
    .map(([name, value]) => `${name}=${value}`)
    .join("&");

/** Not by locale: signatures count bytes. */
export const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);
