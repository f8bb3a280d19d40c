/**
 * Returns the ways to write a character of a secret in a response, as bytes (one letter per byte) in lower case: as is,
 * in UTF-8, percent-encoded once or twice, escaped in JSON once or twice, in JavaScript, in HTML, as quoted-printable,
 * and with a NUL beside it, as in UTF-16.
 */
export function characterForms(character: string): readonly string[] {
  const code = character.codePointAt(0) ?? 0;
  const utf8 = Buffer.from(character).toString("latin1");
  const latin1 = code < 0x100 ? character : utf8;
  const hexOf = (mark: string, text: string) =>
    [...text].map((byte) => mark + byte.charCodeAt(0).toString(16).padStart(2, "0")).join("");
  const unicode = [...Array(character.length).keys()]
    .map((i) => `\\u${character.charCodeAt(i).toString(16).padStart(4, "0")}`)
    .join("");
  const plain = [latin1, utf8, `${latin1}\0`, `\0${latin1}`];
  const escaped = [unicode, `\\${unicode}`, hexOf("\\x", latin1), ...(escapes[character] ?? [])];
  const percent = ["%", "%25", "="].flatMap((mark) => [hexOf(mark, latin1), hexOf(mark, utf8)]);
  const html = [...htmlNumbers(code), ...(entities[character] ?? []).map((name) => `&${name};`)];
  const all = [...plain, ...escaped, ...percent, ...html, ...(character === " " ? ["+"] : [])];
  // Only ASCII is lower-cased: other letters are bytes here.
  return [...new Set(all.map((form) => form.replaceAll(/[A-Z]/g, (letter) => letter.toLowerCase())))];
}

const escapes: Readonly<Record<string, readonly string[]>> = {
  "\n": ["\\n", "\\\\n", "\r\n", "\\r\\n"],
  "\r": ["\\r", "\\\\r"],
  "\t": ["\\t", "\\\\t"],
  '"': ['\\"', '\\\\\\"'],
  "\\": ["\\\\", "\\\\\\\\"],
  "/": ["\\/", "\\\\/"],
};

const entities: Readonly<Record<string, readonly string[]>> = {
  "&": ["amp"],
  "<": ["lt"],
  ">": ["gt"],
  '"': ["quot"],
  "'": ["apos"],
  "/": ["sol"],
  "+": ["plus"],
  "=": ["equals"],
  ":": ["colon"],
  ".": ["period"],
  _: ["lowbar", "underbar"],
  "!": ["excl"],
  "#": ["num"],
  $: ["dollar"],
  "%": ["percnt"],
  "*": ["ast", "midast"],
  ",": ["comma"],
  ";": ["semi"],
  "?": ["quest"],
  "@": ["commat"],
  "(": ["lpar"],
  ")": ["rpar"],
  "[": ["lsqb", "lbrack"],
  "]": ["rsqb", "rbrack"],
  "{": ["lcub", "lbrace"],
  "}": ["rcub", "rbrace"],
  "|": ["vert", "verbar"],
  "\\": ["bsol"],
  "^": ["hat"],
  "`": ["grave"],
  "\t": ["tab"],
  "\n": ["newline"],
};

/** Returns forms such as `&#47;` and `&#x2f;`, also with the leading zeros that some writers add. */
function htmlNumbers(code: number): string[] {
  const [decimal, hex] = [code.toString(10), code.toString(16)];
  return [
    ...[0, 2, 3, 4, 5, 7].map((length) => `&#${decimal.padStart(length, "0")};`),
    ...[0, 2, 4, 6].map((length) => `&#x${hex.padStart(length, "0")};`),
  ];
}
