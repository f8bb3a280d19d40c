/**
 * Where a browser may be sent once all is over: an address of an origin that is on the list, written so that nobody
 * can read another host out of it. Anything else is undefined.
 */
export function returnTarget(text: string, origins: readonly string[]): string | undefined {
  // Parsers disagree about blanks, control characters and backslashes: nothing that has any is looked at.
  if (text.length > maxLength || !/^https?:\/\/[\x21-\x5b\x5d-\x7e]+$/.test(text) || !URL.canParse(text))
    return undefined;
  const { origin, username, password } = new URL(text);
  if (!origins.includes(origin) || username !== "" || password !== "") return undefined;
  // Byte for byte what was parsed: no default port, no capital letters, no host that was mapped to another.
  return text === origin || text.startsWith(`${origin}/`) || text.startsWith(`${origin}?`) ? text : undefined;
}

const maxLength = 2_048;

/** The same address with parameters more. */
export function withParameters(target: string, parameters: Readonly<Record<string, string>>): string {
  const url = new URL(target);
  for (const [name, value] of Object.entries(parameters)) url.searchParams.set(name, value);
  return url.href;
}
