/**
 * Returns the URL that the browser may be sent to at the end: it must be of a listed origin, and written so that no
 * parser can read another host from it. Undefined for anything else.
 */
export function returnTarget(text: string, origins: readonly string[]): string | undefined {
  // Parsers disagree about blanks, control characters and backslashes: refuse any URL that has them.
  if (text.length > maxLength || !/^https?:\/\/[\x21-\x5b\x5d-\x7e]+$/.test(text) || !URL.canParse(text))
    return undefined;
  const { origin, username, password } = new URL(text);
  if (!origins.includes(origin) || username !== "" || password !== "") return undefined;
  // The text must equal the parsed URL byte for byte: no default port, no capital letters, no host that was mapped to
  // another.
  return text === origin || text.startsWith(`${origin}/`) || text.startsWith(`${origin}?`) ? text : undefined;
}

const maxLength = 2_048;

/** Adds parameters to a URL. */
export function withParameters(target: string, parameters: Readonly<Record<string, string>>): string {
  const url = new URL(target);
  for (const [name, value] of Object.entries(parameters)) url.searchParams.set(name, value);
  return url.href;
}
