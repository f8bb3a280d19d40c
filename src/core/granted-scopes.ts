/** Sources of the scopes that end users are asked for. */

interface WantedScopes {
  /** Scopes of the integration, or those that the session names instead. */
  readonly configured: readonly string[];
  /** Scopes of the provider, used if `configured` is empty. */
  readonly defaults: readonly string[];
  /** Scopes added to the configured or default ones. */
  readonly further: readonly string[];
  /** Scopes that the connection already has: asking for more must not lose them. */
  readonly granted: readonly string[];
}

export function wantedScopes({ configured, defaults, further, granted }: WantedScopes): string[] {
  return [...new Set([...(configured.length > 0 ? configured : defaults), ...further, ...granted])];
}

/** Splits text into scopes at blanks and commas, as people and SDKs write them. */
export const scopesIn = (text: string): string[] => text.split(/[\s,]+/).filter((scope) => scope !== "");

/** Short scope names of OpenID Connect that some providers grant under long names; Google's end in these suffixes. */
const longNames: Readonly<Record<string, string>> = {
  email: "/auth/userinfo.email",
  profile: "/auth/userinfo.profile",
};

/** Returns the scopes that were requested but not granted. */
export function missingScopes(wanted: readonly string[], granted: readonly string[]): string[] {
  const held = new Set(granted);
  return wanted.filter((scope) => {
    const long = longNames[scope];
    const isHeld = held.has(scope) || (long !== undefined && granted.some((one) => one.endsWith(long)));
    // `offline_access` only requests a refresh token and is no right of its own: providers omit it from the granted
    // scopes.
    return !isHeld && scope !== "offline_access";
  });
}
