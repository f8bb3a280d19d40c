/** Returns the mistake in a pattern of tool names; undefined if there is none. */
export function mistakeInToolPattern(pattern: string): string | undefined {
  if (pattern === "") return "must be the name of a tool";
  if (pattern.length > maxPatternLength) return `must have at most ${maxPatternLength} characters`;
  if (pattern.slice(0, -1).includes("*")) return "must have * only at the end";
  return /[\p{Cc}\p{Cs}]/u.test(pattern) ? "must not contain control characters" : undefined;
}

const maxPatternLength = 255;

/** Compiles patterns. Names are compared exactly: case matters. */
export function toolCheckOf(patterns: readonly string[]): (tool: string) => boolean {
  const exact = new Set(patterns.filter((pattern) => !pattern.endsWith("*")));
  const prefixes = patterns.filter((pattern) => pattern.endsWith("*")).map((pattern) => pattern.slice(0, -1));
  return (tool) => exact.has(tool) || prefixes.some((prefix) => tool.startsWith(prefix));
}

/** Returns whether every name that `narrow` matches is one that `wide` matches. */
export const coversTool = (wide: string, narrow: string): boolean =>
  wide === narrow || (wide.endsWith("*") && narrow.startsWith(wide.slice(0, -1)));
