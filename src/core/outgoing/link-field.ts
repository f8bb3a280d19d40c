/**
 * Replaces the targets in the value of a `Link` field (RFC 8288, section 3). Everything else, including parameters and
 * blanks, stays as written. From the first malformed part on, the value is unchanged.
 */
export function withLinkTargets(value: string, targetOf: (target: string) => string): string {
  let made = "";
  let at = 0;
  for (;;) {
    const open = value.indexOf("<", at);
    const close = value.indexOf(">", open);
    // Only blanks and commas may separate two links.
    if (open === -1 || close === -1 || !/^[\s,]*$/.test(value.slice(at, open))) return made + value.slice(at);
    made += `${value.slice(at, open)}<${targetOf(value.slice(open + 1, close))}>`;
    at = endOfLink(value, close + 1);
    made += value.slice(close + 1, at);
  }
}

/**
 * Returns the index of the comma after a link's parameters, or the end. A comma in a quoted string belongs to the
 * parameter.
 */
function endOfLink(value: string, from: number): number {
  let isQuoted = false;
  for (let at = from; at < value.length; at += 1) {
    const letter = value[at];
    if (isQuoted && letter === "\\") at += 1;
    else if (letter === '"') isQuoted = !isQuoted;
    else if (!isQuoted && letter === ",") return at;
  }
  return value.length;
}

/** The delay of a `Refresh` field, and everything before its target. */
const beforeTarget = /^\s*[\d.]+\s*[;,]\s*(?:url\s*=\s*)?/i;

/**
 * Replaces the target in the value of a `Refresh` field: `5; url=https://…`. A value without a target is unchanged. A
 * quoted target ends at the next such quote, as browsers read it.
 */
export function withRefreshTarget(value: string, targetOf: (target: string) => string): string {
  const [before = ""] = beforeTarget.exec(value) ?? [];
  const [quote = ""] = /^["']/.exec(value.slice(before.length)) ?? [];
  const from = before.length + quote.length;
  const close = quote === "" ? -1 : value.indexOf(quote, from);
  const target = close === -1 ? value.slice(from).trimEnd() : value.slice(from, close);
  if (before === "" || target === "") return value;
  return `${value.slice(0, from)}${targetOf(target)}${value.slice(from + target.length)}`;
}
