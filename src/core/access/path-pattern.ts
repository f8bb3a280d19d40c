/** Returns the mistake in a pattern of paths; undefined if there is none. */
export function mistakeInPathPattern(pattern: string): string | undefined {
  if (!pattern.startsWith("/")) return "must begin with a slash";
  if (pattern.length > maxPatternLength) return `must have at most ${maxPatternLength} characters`;
  if (/[?#]/.test(pattern)) return "must be a path without query and fragment";
  if (!/^[\x21-\x7e]*$/.test(pattern)) return "must be visible ASCII; write other characters as %XX";
  const segments = pattern.slice(1).split("/");
  const isWrong = segments.some(
    (segment, i) => segment.includes("*") && segment !== "*" && !(segment === "**" && i === segments.length - 1),
  );
  if (isWrong) return "must have * only as a whole segment, and ** only as the last one";
  return isAmbiguousPath(pattern)
    ? "must not contain dot segments, empty segments, ; or encoded / \\ . ; %"
    : undefined;
}

/** Returns an expression that matches the paths of all patterns. Reads a path once, however long it is. */
export function pathExpressionOf(patterns: readonly string[]): RegExp {
  const alternatives = patterns.map((pattern) =>
    pattern
      .split("/")
      .map((segment) => (segment === "**" ? ".*" : segment === "*" ? "[^/]+" : RegExp.escape(segment)))
      .join("/"),
  );
  return new RegExp(`^(?:${alternatives.join("|")})$`, "s");
}

/** Returns whether every path that `narrow` matches is one that `wide` matches. */
export function coversPath(wide: string, narrow: string): boolean {
  const [outer, inner] = [wide.split("/"), narrow.split("/")];
  for (const [i, segment] of outer.entries()) {
    const other = inner[i];
    if (other === undefined) return false;
    if (segment === "**") return true;
    if (other === "**" || (segment === "*" ? other === "" : segment !== other)) return false;
  }
  return outer.length === inner.length;
}

/** Returns the pattern of the paths that both patterns match; undefined: there are none. */
export function commonPath(a: string, b: string): string | undefined {
  const [left, right] = [a.split("/"), b.split("/")];
  const met: string[] = [];
  for (let i = 0; i < Math.max(left.length, right.length); i += 1) {
    const [x, y] = [left[i], right[i]];
    if (x === undefined || y === undefined) return undefined;
    if (x === "**") return [...met, ...right.slice(i)].join("/");
    if (y === "**") return [...met, ...left.slice(i)].join("/");
    const one = x === "*" ? y : x;
    // `*` matches no empty segment.
    if (x !== y && (one === "" || (x !== "*" && y !== "*"))) return undefined;
    met.push(one);
  }
  return met.join("/");
}

/**
 * Returns whether servers may disagree about the segments of a path: empty and dot segments, path parameters, and
 * encoded characters that separate segments or could once they are decoded again. Such a path matches no pattern.
 */
export function isAmbiguousPath(path: string): boolean {
  if (isPlain.test(path)) return false;
  if (/\/\/|[;\\]/.test(path) || /\/\.\.?(?:\/|$)/.test(path)) return true;
  const encoded = path.match(/(?:%[0-9a-f]{2})+/gi) ?? [];
  if (encoded.join("").length / 3 !== path.split("%").length - 1) return true;
  return encoded.some(decodesToSeparator);
}

const maxPatternLength = 1_024;
/** Matches paths whose segments are not in doubt. */
const isPlain = /^(?:\/[^/%;\\.][^/%;\\]*)*\/?$/;

function decodesToSeparator(encoded: string): boolean {
  try {
    // Servers that normalize Unicode take a full-width slash for a slash.
    // biome-ignore lint/suspicious/noControlCharactersInRegex: encoded control characters are what is looked for.
    return /[/\\.;%\x00-\x1f\x7f]/.test(decodeURIComponent(encoded).normalize("NFKC"));
  } catch {
    // Overlong and broken UTF-8, which lenient decoders read as a slash.
    return true;
  }
}
