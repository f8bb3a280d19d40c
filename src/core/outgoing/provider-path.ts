/**
 * Checks the path after `/proxy`, which is forwarded to the provider byte for byte. Refuses anything that could lead to
 * another host or climb out of the base path. Returns the reason, or undefined.
 */
export function mistakeInPath(target: string): string | undefined {
  if (isPlain.test(target)) return undefined;
  if (!target.startsWith("/")) return "the path must begin with a slash";
  if (!/^[\x21-\x7e]*$/.test(target)) return "the path must contain only visible ASCII characters";
  if (target.includes("#")) return "the path must not contain a fragment";
  const [path = ""] = target.split("?", 1);
  if (path.includes("\\")) return "the path must not contain a backslash";
  if (!risky.test(path)) return undefined;
  if (/%(?:00|0a|0d)/i.test(path)) return "the path must not contain an encoded NUL or line break";
  // The provider may decode once before resolving the path; the path must not climb even then.
  const segments = path.replaceAll(/%2e/gi, ".").split(/\/|%2f|%5c/i);
  // Servers that know path parameters remove them before looking for dots: `..;x` climbs as well.
  return segments.some((segment) => /^\.\.?(?:;|%3b|$)/i.test(segment))
    ? "the path must not contain dot segments"
    : undefined;
}

/** Matches paths that need no further checks. */
const isPlain = /^(?:\/(?!\.)[!"$&-.0-[\]-~]*)+$/;
/** Most paths have neither a segment that begins with a dot nor anything encoded. */
const risky = /%|\/\./;
