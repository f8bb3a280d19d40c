import { toBinary } from "@bufbuild/protobuf";
import { Fault } from "../../../base/fault.ts";
import { digestOf } from "../../../base/ids.ts";
import { UnboundHost } from "../../../core/outgoing/filled-url.ts";
import { placeholderValues, type ReadValue } from "../../../core/outgoing/placeholder-values.ts";
import {
  type OAuth2Rules,
  type OnBehalfRules,
  OnBehalfRulesSchema,
  type Provider,
} from "../../../gen/latchkey/v1/provider_pb.ts";
import { filledFor, issuerOf } from "../../tokens/authorization-server.ts";
import { scopesFor } from "../../tokens/oauth2-tokens.ts";
import type { OwnClient, TokenParties } from "../../tokens/token-endpoint.ts";
import type { LiveConnection } from "../live-connections.ts";
import { missingValueFault } from "../missing-value.ts";

export const onBehalfGrants = ["token_exchange", "jwt_bearer", "id_jag"] as const;
export type OnBehalfGrant = (typeof onBehalfGrants)[number];

/** How the tokens of users become access tokens for one connection, with all placeholders filled. */
export interface OnBehalfSettings {
  readonly grant: OnBehalfGrant;
  readonly rules: OnBehalfRules;
  /** The authorization server, with the client of the integration. Its provider is that of the requests as well. */
  readonly server: TokenParties;
  readonly identityProvider: TokenParties;
  readonly subjects: SubjectRules;
  /** Empty: the parameter is not sent. */
  readonly audience: string;
  readonly resource: string;
  readonly scope: string;
  /** Tells apart what access tokens are for: connection, client, scopes, audience, resource and all other rules. */
  readonly fingerprint: string;
}

/** Which tokens of users count, and where the keys that verify them are. */
export interface SubjectRules {
  readonly issuer: string;
  readonly audience: string;
  readonly type: SubjectTokenType;
  /** Where the keys are: equal texts are equal places. */
  readonly keys: string;
}

export type SubjectTokenType = "id_token" | "access_token" | "jwt";

/** Returns the settings of a connection. Throws a Fault if something is missing. */
export function readSettings(base: LiveConnection): OnBehalfSettings {
  const { auth } = base.provider;
  if (auth.case !== "onBehalf") {
    throw new Fault("invalid_headers", "this connection acts for no other user: do not send Latchkey-Subject-Token");
  }
  const { authorizationServer, identityProvider } = auth.value;
  const grant = onBehalfGrants.find((one) => one === auth.value.grant);
  if (grant === undefined || authorizationServer === undefined || identityProvider === undefined) {
    throw new Fault("integration_misconfigured", "the provider's description has no complete rules for `on_behalf`");
  }
  try {
    return settingsOf(base, { grant, rules: auth.value, authorizationServer, identityProvider });
  } catch (error) {
    throw error instanceof UnboundHost ? missingValueFault(error, base) : error;
  }
}

interface CompleteRules {
  readonly grant: OnBehalfGrant;
  readonly rules: OnBehalfRules;
  readonly authorizationServer: OAuth2Rules;
  readonly identityProvider: OAuth2Rules;
}

function settingsOf(base: LiveConnection, complete: CompleteRules): OnBehalfSettings {
  const { grant, rules, authorizationServer } = complete;
  const { integration, secrets, connection } = base;
  const connectionConfig = connection.connectionConfig ?? {};
  const { read } = placeholderValues(base);
  const parties = { integration, secrets, connectionConfig };
  const server = { ...parties, provider: asClientOf(authorizationServer, base.provider) };
  const identityProvider = {
    ...parties,
    provider: asClientOf(complete.identityProvider, base.provider),
    client: identityClient(rules, read),
  };
  const named = filled(rules.audience, read);
  const audience = named === "" && grant === "id_jag" ? issuerOf(server, authorizationServer) : named;
  const resource = filled(rules.resource, read);
  const scopes = scopesFor(server, authorizationServer, []);
  const scope = scopes.join(authorizationServer.scopeSeparator || " ");
  const subjects = subjectRules(identityProvider, complete, filled(rules.subjectAudience, read));
  const { ref } = connection;
  const clientIds = [integration.oauth?.clientId, identityProvider.client?.id];
  const values = [connectionConfig, integration.connectionDefaults, integration.settings];
  const bytes = Buffer.from(toBinary(OnBehalfRulesSchema, rules)).toString("base64");
  const at = [ref?.environment, ref?.integration, ref?.id];
  const fingerprint = digestOf(JSON.stringify([at, clientIds, subjects, audience, resource, scope, values, bytes]));
  return { grant, rules, server, identityProvider, subjects, audience, resource, scope, fingerprint };
}

/** Returns the provider as one whose tokens are issued to our client by these rules. */
const asClientOf = (value: OAuth2Rules, provider: Provider): Provider => ({
  ...provider,
  auth: { case: "oauth2Client", value },
});

/** Returns our client at the identity provider; undefined: the client of the integration. */
function identityClient(rules: OnBehalfRules, read: ReadValue): OwnClient | undefined {
  const { identityClientIdSetting: id, identityClientSecretSetting: secret } = rules;
  if (id === "") return undefined;
  return { id: setting(id, read), secret: secret === "" ? "" : setting(secret, read) };
}

const setting = (name: string, read: ReadValue): string => filled(`\${integration.${name}}`, read);

/** Throws for a missing value: without its audience, a token could be for anything. */
const filled = (text: string, read: ReadValue): string =>
  text.replace(/\$\{([^}]*)\}/g, (_, name: string) => {
    const value = read(name);
    if (value !== undefined) return value;
    throw new Fault("integration_misconfigured", `the integration cannot be used: ${name} is missing`);
  });

const subjectTokenTypes = { "": "id_token", id_token: "id_token", access_token: "access_token", jwt: "jwt" } as const;

function subjectRules(parties: TokenParties, { rules, identityProvider }: CompleteRules, audience: string) {
  const { jwksUrl, metadataUrl } = identityProvider;
  const type = Object.entries(subjectTokenTypes).find(([name]) => name === rules.subjectTokenType)?.[1] ?? "id_token";
  const issuer = issuerOf(parties, identityProvider);
  if (issuer === "" || audience === "") {
    throw new Fault("integration_misconfigured", "the issuer or the audience of the users' tokens is missing");
  }
  const [jwks, metadata] = [jwksUrl, metadataUrl].map((url) => (url === "" ? "" : filledFor(parties, url)));
  const keys = JSON.stringify([issuer, jwks, metadata]);
  return { issuer, audience, type, keys };
}
