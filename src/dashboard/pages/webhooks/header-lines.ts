import { textOf } from "../../data/bytes.ts";

interface WrittenHeader {
  readonly name: string;
  readonly value: Uint8Array<ArrayBuffer>;
}

/** Reads headers, one on each line. Returns what is wrong with the first bad line, too. */
export function headersIn(text: string): readonly [headers: readonly WrittenHeader[], mistake: string | undefined] {
  const headers: WrittenHeader[] = [];
  for (const line of text.split("\n").filter((one) => one.trim() !== "")) {
    const [, name, value = ""] = /^([!#$%&'*+.^_`|~0-9A-Za-z-]+):\s*(.*?)\s*$/.exec(line) ?? [];
    if (name === undefined) return [headers, `Write each header as name: value. This one is not: ${line.slice(0, 80)}`];
    headers.push({ name: name.toLowerCase(), value: new TextEncoder().encode(value) });
  }
  return [headers, undefined];
}

/** Writes headers as `headersIn` reads them. */
export const headerLines = (headers: readonly { readonly name: string; readonly value: Uint8Array }[]): string =>
  headers.map(({ name, value }) => `${name}: ${textOf(value) ?? ""}`).join("\n");
