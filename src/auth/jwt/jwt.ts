import { withoutRefreshTokenIn } from "../hidden-tokens.ts";
import { noDpopKey, notRefreshed } from "../kind-traits.ts";
import { place, placedNames } from "../placement.ts";
import { type AttachRequest, type AuthScheme, CannotAttach } from "../scheme.ts";
import { find } from "../template.ts";
import { mintJwt } from "./mint.ts";

/** A JWT as a bearer token: minted here if the provider's rules say how, else the stored one. */
export const jwt: AuthScheme<"jwt"> = {
  ...{ ...notRefreshed, ...noDpopKey },
  attach(request) {
    const { credentials, rules, client, connectionConfig, optional, nowMs } = request;
    const key = keyOf(request);
    // Without a key, only the stored token is left, as after an import of just a token.
    if (rules.jwt === undefined || (key === undefined && credentials.token !== "")) {
      return place({ what: "the token", value: credentials.token }, rules.placement);
    }
    if (key === undefined) throw new CannotAttach("the key that signs the token is missing");
    const scopes = (client?.scopes?.length ? client.scopes : rules.defaultScopes).join(" ");
    const integration = { clientId: client?.id ?? "", scopes };
    const values = { credentials: credentials.fields ?? {}, connectionConfig, integration };
    const { token, untilMs } = mintJwt({ rules: rules.jwt, key, values, optional, nowMs });
    return { ...place({ what: "the token", value: token }, rules.placement), untilMs };
  },
  names: ({ placement }) => placedNames(placement),
  expiresAt: ({ expiresAt }) => expiresAt,
  // Shown as it is, even without a token.
  lacksToken: () => false,
  issuedWith: () => undefined,
  // Minted for each use, so the expiry of the stored token does not matter.
  canRefresh: () => true,
  withoutRefreshToken: (credentials) => ({ ...credentials, ...withoutRefreshTokenIn(credentials, "") }),
  forRequests({ fields, ...kept }, rules) {
    // Where tokens are minted for requests, the fields hold the key and what is signed.
    return rules?.jwt === undefined || fields === undefined ? kept : { ...kept, fields };
  },
};

function keyOf({ credentials, rules, client }: AttachRequest<"jwt">): string | undefined {
  const field = rules.jwt?.keyField ?? "";
  const key = field === "" ? client?.privateKey : find(field, credentials.fields ?? {});
  return typeof key === "string" && key !== "" ? key : undefined;
}
