/** Formats commands for a POSIX shell. */

/** The columns of a terminal of default size, less the column of its cursor. */
const width = 79;

/** Joins the parts of a command into lines that fit, each but the last ending in a backslash. Parts are never split. */
export function command(...parts: readonly string[]): string {
  const lines: string[] = [];
  let line = "  ";
  for (const part of parts) {
    if (line === "  ") line += part;
    else if (line.length + 1 + part.length + " \\".length <= width) line += ` ${part}`;
    else {
      lines.push(`${line} \\`);
      line = `    ${part}`;
    }
  }
  return [...lines, line].join("\n");
}

/** Joins each flag with its value, so that no line break separates them. */
export const flagPairs = (flags: readonly string[]): string[] =>
  flags.flatMap((flag, i) => (i % 2 === 0 ? [`${flag} ${quoted(flags[i + 1] ?? "")}`] : []));

/** The arguments with which curl reaches a path: a Unix socket has no URL of its own. */
export const curlTarget = (address: string, path: string): readonly string[] =>
  address.startsWith("unix:")
    ? [`--unix-socket ${quoted(address.slice("unix:".length))}`, `'http://localhost${path}'`]
    : [`'${address}${path}'`];

/** Quotes a word only if the shell needs it. */
export const quoted = (text: string): string =>
  /^[A-Za-z0-9_./:@%+,=-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
