/** The parameters of a `Bearer` challenge (RFC 6750, section 3; RFC 9728, section 5.1). */
export interface BearerChallenge {
  readonly resourceMetadata: string | undefined;
  readonly scopes: readonly string[];
  readonly error: string | undefined;
}

const none: BearerChallenge = { resourceMetadata: undefined, scopes: [], error: undefined };
const longest = 8_192;
/** A scheme, or a parameter with a token or a quoted text. */
const part =
  /\s*,?\s*(?:([!#$%&'*+.^_`|~0-9A-Za-z-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]+))|([!#$%&'*+.^_`|~0-9A-Za-z-]+)(?=[\s,]|$))/y;

/** Reads the `Bearer` challenge in `WWW-Authenticate` headers. Other schemes are ignored. */
export function bearerChallenge(values: readonly string[]): BearerChallenge {
  const parameters = new Map<string, string>();
  let isBearer = false;
  const text = values.join(", ").slice(0, longest);
  part.lastIndex = 0;
  for (let found = part.exec(text); found !== null; found = part.exec(text)) {
    const [, name, quoted, token, scheme] = found;
    if (scheme !== undefined) isBearer = scheme.toLowerCase() === "bearer";
    else if (isBearer && name !== undefined && !parameters.has(name.toLowerCase())) {
      parameters.set(name.toLowerCase(), quoted?.replaceAll(/\\(.)/g, "$1") ?? token ?? "");
    }
  }
  if (parameters.size === 0) return none;
  return {
    resourceMetadata: parameters.get("resource_metadata"),
    scopes: scopesIn(parameters.get("scope") ?? ""),
    error: parameters.get("error"),
  };
}

/** RFC 6749, section 3.3. */
const scopesIn = (text: string): string[] =>
  text.split(" ").filter((one) => /^[\x21\x23-\x5b\x5d-\x7e]{1,256}$/.test(one));
