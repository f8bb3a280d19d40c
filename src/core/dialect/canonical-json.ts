/**
 * JSON with its keys sorted and no blanks (RFC 8785), so that equal values have equal texts. What is no JSON is
 * written as `JSON.stringify` has it: left out of an object, null anywhere else. Half a character, as a text that was
 * cut between two has it, becomes U+FFFD: no reader of UTF-8 takes it. Undefined: deeper than `maxDepth`.
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
  // Own and enumerable, as Object.keys gave them.
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

/** Nearly every text: it stands for itself, which is seen sooner than it is written anew. */
const plain = /^[\x20\x21\x23-\x5b\x5d-\x7e]*$/;

const textOf = (text: string): string =>
  plain.test(text) ? `"${text}"` : JSON.stringify(text.isWellFormed() ? text : text.toWellFormed());
