/** A SPIFFE ID: `spiffe://trust-domain/path`. */
export interface SpiffeId {
  readonly text: string;
  readonly trustDomain: string;
  /** Without the slash at the beginning. */
  readonly segments: readonly string[];
}

/** A SPIFFE ID, in whose path `*` is one segment and `**` at the end is any rest. */
export interface SpiffePattern extends SpiffeId {}

/** The standard allows no more bytes. */
const maxLength = 2_048;
const form = /^spiffe:\/\/([a-z0-9._-]{1,255})((?:\/[A-Za-z0-9._-]+)*)$/;
const patternForm = /^spiffe:\/\/([a-z0-9._-]{1,255})((?:\/(?:[A-Za-z0-9._-]+|\*))*(?:\/\*\*)?)$/;

/** Returns undefined unless the text is a SPIFFE ID (SPIFFE-ID, section 2). */
export const readSpiffeId = (text: string): SpiffeId | undefined => read(form, text);

/** Returns undefined unless the text is a pattern. A trust domain cannot be a pattern: each has its own keys. */
export const readSpiffePattern = (text: string): SpiffePattern | undefined => read(patternForm, text);

export const isTrustDomain = (text: string): boolean => /^[a-z0-9._-]{1,255}$/.test(text);

function read(expression: RegExp, text: string): SpiffeId | undefined {
  if (text.length > maxLength) return undefined;
  const [, trustDomain, path = ""] = expression.exec(text) ?? [];
  if (trustDomain === undefined) return undefined;
  const segments = path === "" ? [] : path.slice(1).split("/");
  return segments.some((segment) => segment === "." || segment === "..") ? undefined : { text, trustDomain, segments };
}

export function isMatchedBy({ trustDomain, segments }: SpiffeId, pattern: SpiffePattern): boolean {
  if (trustDomain !== pattern.trustDomain) return false;
  for (const [i, wanted] of pattern.segments.entries()) {
    const segment = segments[i];
    if (segment === undefined) return false;
    if (wanted === "**") return true;
    if (wanted !== "*" && wanted !== segment) return false;
  }
  return segments.length === pattern.segments.length;
}
