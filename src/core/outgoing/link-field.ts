/**
 * The value of a `Link` field (RFC 8288, section 3) with other targets: everything else, the parameters and the blanks
 * among them, is kept as it was written. From where a value is malformed on, it is kept as well.
 */
export function withLinkTargets(value: string, targetOf: (target: string) => string): string {
  let made = "";
  let at = 0;
  for (;;) {
    const open = value.indexOf("<", at);
    const close = value.indexOf(">", open);
    // Between two links stand blanks and commas.
    if (open === -1 || close === -1 || !/^[\s,]*$/.test(value.slice(at, open))) return made + value.slice(at);
    made += `${value.slice(at, open)}<${targetOf(value.slice(open + 1, close))}>`;
    at = endOfLink(value, close + 1);
    made += value.slice(close + 1, at);
  }
}

/** The comma behind a link's parameters, or the end. A comma in a quoted string belongs to the parameter. */
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

/** The delay of a `Refresh` field and what stands before its target. */
const beforeTarget = /^\s*[\d.]+\s*[;,]\s*(?:url\s*=\s*)?/i;

/**
 * The value of a `Refresh` field with another target: `5; url=https://…`. Without a target it is kept as it is. A
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
