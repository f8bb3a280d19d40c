import type { Mistake } from "../base/fault.ts";
import type { OAuth2Rules, Provider } from "../gen/latchkey/v1/provider_pb.ts";
import { mistake } from "./mistake.ts";

/** Finds what a valid description lacks to be of use. An author may still be adding it, so it is no mistake. */
export function incompleteParts({ auth, proxy }: Provider): Mistake[] {
  const isHostless = (proxy?.baseUrl ?? "") === "" && (proxy?.hosts ?? []).length === 0;
  return [
    ...(isHostless ? [mistake("proxy.base_url", "is missing: requests through the proxy have no address")] : []),
    ...(auth.case === "oauth2" ? [...missingAuthorization(auth.value), ...missingToken(auth.value, "oauth2")] : []),
    ...(auth.case === "oauth2Client" ? missingToken(auth.value, "oauth2_client") : []),
  ];
}

const missingAuthorization = ({ authorizationUrl, deviceAuthorizationUrl, metadataUrl }: OAuth2Rules): Mistake[] =>
  authorizationUrl + deviceAuthorizationUrl + metadataUrl === ""
    ? [mistake("oauth2.authorization_url", "is missing: end users cannot authorize")]
    : [];

const missingToken = ({ tokenUrl, metadataUrl }: OAuth2Rules, kind: string): Mistake[] =>
  tokenUrl + metadataUrl === "" ? [mistake(`${kind}.token_url`, "is missing: there is nowhere to get tokens")] : [];
