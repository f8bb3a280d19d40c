/** What end users are asked for, and what they gave. */

interface WantedScopes {
  /** The integration's, or in their place what the session names. */
  readonly configured: readonly string[];
  /** The provider's, where nobody names any. */
  readonly defaults: readonly string[];
  /** Beside those. */
  readonly further: readonly string[];
  /** What the connection has already: whoever asks for more must not lose it. */
  readonly granted: readonly string[];
}

export function wantedScopes({ configured, defaults, further, granted }: WantedScopes): string[] {
  return [...new Set([...(configured.length > 0 ? configured : defaults), ...further, ...granted])];
}

/** Text with scopes in it, parted as people and SDKs part them. */
export const scopesIn = (text: string): string[] => text.split(/[\s,]+/).filter((scope) => scope !== "");

/** OpenID Connect's short names, which some providers grant under long ones: Google's end in these. */
const longNames: Readonly<Record<string, string>> = {
  email: "/auth/userinfo.email",
  profile: "/auth/userinfo.profile",
};

/** What was asked for and not granted. */
export function missingScopes(wanted: readonly string[], granted: readonly string[]): string[] {
  const held = new Set(granted);
  return wanted.filter((scope) => {
    const long = longNames[scope];
    const isHeld = held.has(scope) || (long !== undefined && granted.some((one) => one.endsWith(long)));
    // That a refresh token is wanted is no right of its own: providers leave it out of what they list.
    return !isHeld && scope !== "offline_access";
  });
}
