/** Returns the text of bytes; undefined if they are not UTF-8. */
export function textOf(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    /* Not text, such as a picture. */
    return undefined;
  }
}

/** Controls other than line breaks and tabs, and format characters other than the joiner of emoji. */
const invisible = /[^\P{Cc}\n\r\t]|(?!\u200d)\p{Cf}/gu;

/** Writes characters that a person cannot see, or that change the direction of text, as `\u{202e}`. */
export const visibleText = (text: string): string =>
  text.replace(invisible, (char) => `\\u{${char.codePointAt(0)?.toString(16)}}`);

/** Returns bytes as lines of hexadecimal numbers. */
export function hexText(bytes: Uint8Array, most = 1_024): string {
  const lines: string[] = [];
  for (let at = 0; at < Math.min(bytes.length, most); at += 16) {
    const row = [...bytes.subarray(at, Math.min(at + 16, most))].map((byte) => byte.toString(16).padStart(2, "0"));
    lines.push(`${at.toString(16).padStart(6, "0")}  ${row.join(" ")}`);
  }
  return lines.join("\n");
}

/**
 * Indents JSON and changes nothing else: numbers that are too long for JavaScript stay as they are. Undefined if the
 * text is not JSON.
 */
export function indentedJson(text: string): string | undefined {
  try {
    JSON.parse(text);
  } catch {
    /* Not JSON. */
    return undefined;
  }
  let depth = 0;
  const line = () => `\n${"  ".repeat(depth)}`;
  return text
    .replace(/("[^"\\]*(?:\\.[^"\\]*)*")|\s+/g, (_, string: string | undefined) => string ?? "")
    .replace(/"[^"\\]*(?:\\.[^"\\]*)*"|\{\}|\[\]|[{}[\],:]/g, (token) => {
      if (token === "{" || token === "[") {
        depth += 1;
        return `${token}${line()}`;
      }
      if (token === "}" || token === "]") {
        depth -= 1;
        return `${line()}${token}`;
      }
      if (token === ",") return `,${line()}`;
      return token === ":" ? ": " : token;
    });
}
