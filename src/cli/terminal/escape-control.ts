// Control characters and marks of writing direction: with these, a connection's ID could move the cursor, hide a line,
// or show one text as another.
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is looked for.
const unsafe = /[\0-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;
const unsafeButNewline = new RegExp(unsafe.source.replace("\\0-\\x1f", "\\0-\\x09\\x0b-\\x1f"), "g");

const escaped = (character: string) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;

/** Escapes characters that a terminal would interpret, for one line of foreign text. */
export const escapeControl = (text: string): string => text.replace(unsafe, escaped);

/** Does the same for text of several lines. In JSON, the escapes keep their meaning. */
export const escapeControlInLines = (text: string): string => text.replace(unsafeButNewline, escaped);
