// Control characters, and the marks that turn the direction of writing: with them a connection's id could move the
// cursor, hide a line or show one text as another.
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is looked for.
const unsafe = /[\0-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;
const unsafeButNewline = new RegExp(unsafe.source.replace("\\0-\\x1f", "\\0-\\x09\\x0b-\\x1f"), "g");

const escaped = (character: string) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;

/** Text from elsewhere on one line, with what a terminal would act upon written out. */
export const visible = (text: string): string => text.replace(unsafe, escaped);

/** The same for text of several lines. In JSON the escapes mean what they stood for. */
export const visibleLines = (text: string): string => text.replace(unsafeButNewline, escaped);
