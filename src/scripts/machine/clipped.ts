/** Cuts text to a number of bytes of UTF-8, between two characters. */
export function clipped(text: string, bytes: number): string {
  if (text.length * 3 <= bytes) return text;
  const all = Buffer.from(text);
  return all.length <= bytes
    ? text
    : all
        .subarray(0, bytes)
        .toString()
        .replace(/\uFFFD$/, "");
}
