import { create } from "@bufbuild/protobuf";
import { Fault } from "../base/fault.ts";
import {
  type Integration,
  type IntegrationSecrets,
  IntegrationSecretsSchema,
  type OAuthApp,
  OAuthAppSchema,
} from "../gen/latchkey/v1/integration_pb.ts";

type Taken = (source: Integration, target: Integration) => Partial<Integration>;

/** What of an integration may be changed, by the paths of an update mask, and what each takes over. */
const fields: Readonly<Record<string, Taken>> = {
  display_name: ({ displayName }) => ({ displayName }),
  oauth: ({ oauth }) => ({ oauth: oauth ?? create(OAuthAppSchema) }),
  "oauth.client_id": ({ oauth }, target) => withOAuth(target, { clientId: oauth?.clientId ?? "" }),
  "oauth.scopes": ({ oauth }, target) => withOAuth(target, { scopes: oauth?.scopes ?? [] }),
  "oauth.publishing": ({ oauth }, target) => withOAuth(target, { publishing: oauth?.publishing ?? 0 }),
  callback: ({ callback }) => ({ callback }),
  hosts: ({ hosts }) => ({ hosts }),
  channels: ({ channels }) => ({ channels }) as Partial<Integration>,
  reflection: ({ reflection }) => ({ reflection }),
  no_forward: ({ noForward }) => ({ noForward }),
  connection_defaults: ({ connectionDefaults }) => ({ connectionDefaults }),
  use_record: ({ useRecord }) => ({ useRecord }),
  keep_set_cookie: ({ keepSetCookie }) => ({ keepSetCookie }),
  credentials_in_scripts: ({ credentialsInScripts }) => ({ credentialsInScripts }),
};

const secretFields: Readonly<Record<string, (source: IntegrationSecrets) => Partial<IntegrationSecrets>>> = {
  secrets: ({ $typeName: _, $unknown: __, ...all }) => all,
  "secrets.client_secret": ({ clientSecret }) => ({ clientSecret }),
  "secrets.webhook_secret": ({ webhookSecret }) => ({ webhookSecret }),
  "secrets.private_key": ({ privateKey }) => ({ privateKey }),
  "secrets.client_certificate": ({ clientCertificate }) => ({ clientCertificate }),
  "secrets.client_private_key": ({ clientPrivateKey }) => ({ clientPrivateKey }),
};

const withOAuth = (
  { oauth = create(OAuthAppSchema) }: Integration,
  change: Partial<OAuthApp>,
): Partial<Integration> => ({
  oauth: { ...oauth, ...change },
});

/** Throws for a mask that names nothing, or something that cannot be changed. */
export function checkIntegrationMask(paths: readonly string[]): void {
  const unknown = paths.filter((path) => !Object.hasOwn(fields, path) && !Object.hasOwn(secretFields, path));
  if (unknown.length === 0 && paths.length > 0) return;
  const message = paths.length === 0 ? "the update mask must name a field" : `cannot be changed: ${unknown.join(", ")}`;
  throw new Fault("invalid_body", message, { mistakes: [{ path: ["update_mask"], message }] });
}

interface Update<T> {
  readonly target: T;
  readonly source: Integration;
  readonly paths: readonly string[];
}

export function updatedIntegration({ target, source, paths }: Update<Integration>): Integration {
  const updated = { ...target };
  for (const path of paths) Object.assign(updated, fields[path]?.(source, updated));
  return updated;
}

/** Undefined where the mask names no secret. */
export function updatedSecrets({
  target,
  source,
  paths,
}: Update<IntegrationSecrets | undefined>): IntegrationSecrets | undefined {
  const named = paths.filter((path) => Object.hasOwn(secretFields, path));
  if (named.length === 0) return undefined;
  const given = source.secrets ?? create(IntegrationSecretsSchema);
  const parts = named.map((path) => secretFields[path]?.(given));
  return Object.assign({ ...(target ?? create(IntegrationSecretsSchema)) }, ...parts) as IntegrationSecrets;
}
