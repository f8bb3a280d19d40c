import { withoutRefreshTokenIn } from "../hidden-tokens.ts";
import { neverExpires, noDpopKey, notRefreshed } from "../kind-traits.ts";
import type { AuthScheme } from "../scheme.ts";
import { signedRequests } from "./request.ts";

/** OAuth 1.0a: each request is signed (RFC 5849). */
export const oauth1: AuthScheme<"oauth1"> = {
  ...{ ...neverExpires, ...notRefreshed, ...noDpopKey },
  attach({ credentials, rules, client, connectionConfig }) {
    const { oauthToken: token, oauthTokenSecret: tokenSecret } = credentials;
    return signedRequests({ rules, defaultMethod: "HMAC-SHA1", client, token, tokenSecret, connectionConfig });
  },
  names: () => ({ headers: ["authorization"], query: [] }),
  withoutRefreshToken: (credentials) => ({ ...credentials, ...withoutRefreshTokenIn(credentials, "") }),
  forRequests: ({ raw: _, ...kept }) => kept,
};
