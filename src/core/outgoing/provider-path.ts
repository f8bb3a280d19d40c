/**
 * What follows `/proxy` goes to the provider byte for byte, and it is a path: whatever could lead somewhere else, or
 * climb out of the base path, is refused. Returns why, or undefined.
 */
export function mistakeInPath(target: string): string | undefined {
  if (isPlain.test(target)) return undefined;
  if (!target.startsWith("/")) return "the path must begin with a slash";
  if (!/^[\x21-\x7e]*$/.test(target)) return "the path must be of visible ASCII characters";
  if (target.includes("#")) return "the path must not hold a fragment";
  const [path = ""] = target.split("?", 1);
  if (path.includes("\\")) return "the path must not hold a backslash";
  if (!risky.test(path)) return undefined;
  if (/%(?:00|0a|0d)/i.test(path)) return "the path must not hold an encoded NUL or line break";
  // The provider may decode once before it resolves the path; after that, it must still lie where it seems to.
  const segments = path.replaceAll(/%2e/gi, ".").split(/\/|%2f|%5c/i);
  // Servers that know path parameters leave them out before they look for dots: `..;x` climbs as well.
  return segments.some((segment) => /^\.\.?(?:;|%3b|$)/i.test(segment))
    ? "the path must not hold dot segments"
    : undefined;
}

/** What there is nothing to look into of. */
const isPlain = /^(?:\/(?!\.)[!"$&-.0-[\]-~]*)+$/;
/** Most paths have neither a dot at the beginning of a segment nor anything encoded. */
const risky = /%|\/\./;
