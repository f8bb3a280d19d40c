import type { Mistake } from "../base/fault.ts";
import type { OAuth2Rules, Provider } from "../gen/latchkey/v1/provider_pb.ts";
import { checkOAuth2 } from "./check-oauth2.ts";
import { checkPlaceholders } from "./check-placeholders.ts";
import { mistake } from "./mistake.ts";

/** Checks how tokens of users become access tokens. */
export function checkOnBehalf(provider: Provider): Mistake[] {
  const { auth } = provider;
  if (auth.case !== "onBehalf") return [];
  const { authorizationServer: server, identityProvider, subjectAudience, audience, resource } = auth.value;
  if (server === undefined || identityProvider === undefined) return [];
  return [
    ...checkServer(provider, "authorization_server", server),
    ...checkServer(provider, "identity_provider", identityProvider),
    ...checkVerification(identityProvider),
    ...(server.tokenUrl + server.metadataUrl === ""
      ? [mistake("auth.authorization_server.token_url", "is missing: there is nowhere to get tokens")]
      : []),
    ...checkPlaceholders(subjectAudience, "auth.subject_audience", ["integration"]),
    ...checkPlaceholders(audience, "auth.audience", ["integration", "connectionConfig"]),
    ...checkPlaceholders(resource, "auth.resource", ["integration", "connectionConfig"]),
    ...checkGrant(provider),
    ...checkIdentityClient(provider),
    ...checkOtherParts(provider),
  ];
}

/** Holds rules to what applies to clients that act without an end user's browser. */
const checkServer = (provider: Provider, place: string, rules: OAuth2Rules): Mistake[] =>
  checkOAuth2({ ...provider, auth: { case: "oauth2Client", value: rules } }).map((one) => ({
    ...one,
    path: one.path[0] === "auth" ? ["auth", place, ...one.path.slice(1)] : one.path,
  }));

/** Without issuer and keys, a made-up token would choose whose access token is used. */
function checkVerification({ issuer, jwksUrl, metadataUrl, dpop }: OAuth2Rules): Mistake[] {
  return [
    ...(issuer === ""
      ? [mistake("auth.identity_provider.issuer", "is required: the users' tokens must come from there")]
      : []),
    ...(jwksUrl + metadataUrl === ""
      ? [mistake("auth.identity_provider.jwks_url", "or metadata_url is required: its keys verify the users' tokens")]
      : []),
    ...(dpop ? [mistake("auth.identity_provider.dpop", "must be false: assertions are not bound to a key")] : []),
  ];
}

function checkGrant({ auth }: Provider): Mistake[] {
  if (auth.case !== "onBehalf") return [];
  const { grant, authorizationServer: server, identityProvider, audience, requestedTokenType } = auth.value;
  return [
    ...(requestedTokenType !== "" && grant !== "token_exchange"
      ? [mistake("auth.requested_token_type", "needs the grant token_exchange")]
      : []),
    ...(grant === "id_jag" && `${identityProvider?.tokenUrl}${identityProvider?.metadataUrl}` === ""
      ? [mistake("auth.identity_provider.token_url", "is missing: it issues the identity assertions")]
      : []),
    // The assertion must be for one authorization server.
    ...(grant === "id_jag" && audience === "" && (server?.issuer ?? "") === ""
      ? [mistake("auth.audience", "or authorization_server.issuer is required for id_jag")]
      : []),
  ];
}

function checkIdentityClient({ auth, integrationSettings }: Provider): Mistake[] {
  if (auth.case !== "onBehalf") return [];
  const { grant, identityClientIdSetting: id, identityClientSecretSetting: secret } = auth.value;
  const settingOf = (name: string) => integrationSettings.find((one) => one.name === name);
  return [
    ...(id + secret !== "" && grant !== "id_jag"
      ? [mistake("auth.identity_client_id_setting", "needs the grant id_jag")]
      : []),
    ...(id !== "" && settingOf(id)?.secret !== false
      ? [mistake("auth.identity_client_id_setting", "must be one of integration_settings that is not secret")]
      : []),
    ...(secret !== "" && settingOf(secret)?.secret !== true
      ? [mistake("auth.identity_client_secret_setting", "must be one of integration_settings that is secret")]
      : []),
    ...(secret !== "" && id === ""
      ? [mistake("auth.identity_client_secret_setting", "needs identity_client_id_setting")]
      : []),
  ];
}

/** Parts that need credentials of the connection, which it does not have. */
function checkOtherParts({ verification, channel, describe, choices, revocation }: Provider): Mistake[] {
  const parts = {
    verification: verification !== undefined,
    channel: channel !== undefined,
    describe: describe.length > 0,
    choices: choices.length > 0,
    revocation: revocation !== undefined,
  };
  return Object.entries(parts).flatMap(([name, isThere]) =>
    isThere ? [mistake(name, "cannot be combined with on_behalf: the connection has no credentials of its own")] : [],
  );
}
