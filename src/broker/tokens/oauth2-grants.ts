import type { OAuth2Rules } from "../../gen/latchkey/v1/provider_pb.ts";
import type { TokenGrant } from "./token-endpoint.ts";

/** A grant that an RFC defines, unlike one that a provider's description defines. */
export type OAuth2Grant = Exclude<TokenGrant, { readonly type: "described" }>;

/** A grant as it is sent. */
export interface GrantForm {
  readonly grantType: string;
  readonly parameters: Readonly<Record<string, string>>;
  /** Whether the grant goes to the refresh endpoint, if that differs from the token endpoint. */
  readonly isRenewal: boolean;
  /** Secrets that must never be repeated in errors. */
  readonly secrets: readonly string[];
}

const deviceCode = "urn:ietf:params:oauth:grant-type:device_code";
const jwtBearer = "urn:ietf:params:oauth:grant-type:jwt-bearer";
const tokenExchange = "urn:ietf:params:oauth:grant-type:token-exchange";

/**
 * Returns the parameters of a grant. Parameters of the protocol override those that a description adds, but for the
 * redirect URI: eBay wants the ID under which it knows that.
 */
export function grantForm(grant: OAuth2Grant, rules: OAuth2Rules, scopes: readonly string[]): GrantForm {
  const { tokenParams, refreshParams, renewal } = rules;
  switch (grant.type) {
    case "authorization_code": {
      const { code, redirectUri, codeVerifier } = grant;
      const proof = codeVerifier === undefined ? {} : { code_verifier: codeVerifier };
      return {
        grantType: "authorization_code",
        parameters: { redirect_uri: redirectUri, ...tokenParams, code, ...proof },
        isRenewal: false,
        secrets: [code, codeVerifier ?? ""],
      };
    }
    case "refresh_token":
    case "renewal": {
      const token = grant.type === "renewal" ? grant.accessToken : grant.refreshToken;
      const { grantType = "", parameter = "" } = renewal ?? {};
      return {
        grantType: grantType === "" ? "refresh_token" : grantType,
        parameters: { ...refreshParams, [parameter === "" ? "refresh_token" : parameter]: token },
        isRenewal: true,
        secrets: [token],
      };
    }
    case "client_credentials": {
      const separator = rules.scopeSeparator === "" ? " " : rules.scopeSeparator;
      const scope = scopes.length === 0 ? {} : { scope: scopes.join(separator) };
      return {
        grantType: "client_credentials",
        parameters: { ...tokenParams, ...scope },
        isRenewal: false,
        secrets: [],
      };
    }
    case "device_code":
      return {
        grantType: deviceCode,
        parameters: { ...tokenParams, device_code: grant.deviceCode },
        isRenewal: false,
        secrets: [grant.deviceCode],
      };
    case "token_exchange":
      return {
        grantType: tokenExchange,
        parameters: {
          ...tokenParams,
          subject_token: grant.subjectToken,
          subject_token_type: grant.subjectTokenType,
        },
        isRenewal: false,
        secrets: [grant.subjectToken],
      };
    case "jwt_bearer":
      return {
        grantType: jwtBearer,
        parameters: { ...tokenParams, assertion: grant.assertion },
        isRenewal: false,
        secrets: [grant.assertion],
      };
  }
}
