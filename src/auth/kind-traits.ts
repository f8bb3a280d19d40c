/** Traits that several kinds of credentials share. Each kind names the traits that it has. */

/** Credentials that never expire. */
export const neverExpires = {
  expiresAt: () => undefined,
  lacksToken: () => false,
  issuedWith: () => undefined,
};

/** Credentials that no request refreshes. */
export const notRefreshed = {
  canRefresh: () => false,
  hasTokenEndpoint: () => false,
  refresh: () => undefined,
  refreshed(): never {
    throw new Error("credentials of this kind are not refreshed");
  },
};

/** Credentials whose token is bound to no key. */
export const noDpopKey = {
  dpopKeyOf: () => "",
  withoutDpopKey: <T>(credentials: T): T => credentials,
};

/** Credentials of which requests need everything. */
export const sentWhole = { forRequests: <T>(credentials: T): T => credentials };

/** Credentials that are shown whole to each caller that may see them. */
export const shownWhole = { withoutRefreshToken: <T>(credentials: T): T => credentials, ...noDpopKey };
