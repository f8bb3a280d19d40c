/**
 * Returns JSON with sorted keys and no blanks (RFC 8785), so that equal values have equal texts. Values that JSON
 * cannot represent are treated as in `JSON.stringify`: omitted from an object, null elsewhere. A lone surrogate, as in
 * text that was cut inside a character, becomes U+FFFD, since UTF-8 readers reject it. Returns undefined if the value
 * is nested deeper than `maxDepth`.
 */
export function canonicalJson(value: unknown, maxDepth: number): string | undefined {
  if (typeof value === "string") return textOf(value);
  if (typeof value !== "object" || value === null) return JSON.stringify(value) ?? "null";
  if (maxDepth === 0) return undefined;
  return Array.isArray(value) ? arrayOf(value, maxDepth) : objectOf(value, maxDepth);
}

function arrayOf(items: readonly unknown[], maxDepth: number): string | undefined {
  let text = "";
  for (const item of items) {
    const inner = canonicalJson(item, maxDepth - 1);
    if (inner === undefined) return undefined;
    text += text === "" ? inner : `,${inner}`;
  }
  return `[${text}]`;
}

function objectOf(value: object, maxDepth: number): string | undefined {
  // Own and enumerable keys, from Object.keys.
  const fields = value as Readonly<Record<string, unknown>>;
  let text = "";
  for (const key of Object.keys(value).sort()) {
    const field = fields[key];
    if (field === undefined || typeof field === "function" || typeof field === "symbol") continue;
    const inner = canonicalJson(field, maxDepth - 1);
    if (inner === undefined) return undefined;
    text += `${text === "" ? "" : ","}${textOf(key)}:${inner}`;
  }
  return `{${text}}`;
}

/** Text that needs no escapes, which is nearly all text: testing is faster than serializing. */
const plain = /^[\x20\x21\x23-\x5b\x5d-\x7e]*$/;

const textOf = (text: string): string =>
  plain.test(text) ? `"${text}"` : JSON.stringify(text.isWellFormed() ? text : text.toWellFormed());
