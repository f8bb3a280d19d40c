import { create } from "@bufbuild/protobuf";
import { Fault } from "../../base/fault.ts";
import {
  type Integration,
  Integration_Callback,
  Integration_Reflection,
  type IntegrationSecrets,
  IntegrationSecretsSchema,
  type OAuthApp,
  OAuthAppSchema,
} from "../../gen/latchkey/v1/integration_pb.ts";
import type { Provider } from "../../gen/latchkey/v1/provider_pb.ts";
import { boundConfigNames, changedConfigNames } from "./bound-config.ts";

type TakeFields = (source: Integration, target: Integration) => Partial<Integration>;

/** Fields of an integration that an update mask may name, each with the part that it copies. */
const fields = {
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
} satisfies Readonly<Record<string, TakeFields>>;

const secretFields = {
  secrets: ({ $typeName: _, $unknown: __, ...all }) => all,
  "secrets.client_secret": ({ clientSecret }) => ({ clientSecret }),
  "secrets.webhook_secret": ({ webhookSecret }) => ({ webhookSecret }),
  "secrets.private_key": ({ privateKey }) => ({ privateKey }),
  "secrets.client_certificate": ({ clientCertificate }) => ({ clientCertificate }),
  "secrets.client_private_key": ({ clientPrivateKey }) => ({ clientPrivateKey }),
} satisfies Readonly<Record<string, (source: IntegrationSecrets) => Partial<IntegrationSecrets>>>;

const takenBy: ReadonlyMap<string, TakeFields> = new Map(Object.entries(fields));
const secretsTakenBy = new Map(Object.entries(secretFields));

export interface IntegrationChange {
  readonly before: Integration;
  readonly after: Integration;
  /** Undefined if the provider is no longer declared: the config names that its description uses are then unknown. */
  readonly provider: Provider | undefined;
}

/** Returns the changed parts of a field that send stored credentials elsewhere, or show them to someone else. */
type Exposed = (change: IntegrationChange) => readonly string[];

const nothing: Exposed = () => [];
const isGuarded = ({ reflection }: Integration): boolean =>
  reflection === Integration_Reflection.MASK || reflection === Integration_Reflection.REFUSE;

/** Each updatable field lists which of its changes expose credentials. */
const exposedBy: Readonly<Record<keyof typeof fields | keyof typeof secretFields, Exposed>> = {
  display_name: nothing,
  oauth: nothing,
  "oauth.client_id": nothing,
  "oauth.scopes": nothing,
  "oauth.publishing": nothing,
  // At a shared address, another provider's answer can be mixed up with this one's, and a code sent to the wrong one.
  callback: ({ before, after }) =>
    before.callback === Integration_Callback.BOUND && after.callback !== Integration_Callback.BOUND ? ["callback"] : [],
  hosts: ({ before, after }) =>
    after.hosts.every(({ origin }) => before.hosts.some((known) => known.origin === origin)) ? [] : ["hosts"],
  // Channels are requested from the provider, and their webhook address is always our own.
  channels: nothing,
  // A reflected credential that is passed on is visible to the caller of the proxy.
  reflection: ({ before, after }) => (isGuarded(before) && !isGuarded(after) ? ["reflection"] : []),
  no_forward: nothing,
  connection_defaults: ({ before, after, provider }) => {
    const { connectionDefaults: old } = before;
    const { connectionDefaults: given } = after;
    const bound = provider ? boundConfigNames(provider) : new Set([...Object.keys(old), ...Object.keys(given)]);
    return changedConfigNames(bound, old, given).map((name) => `connection_defaults.${name}`);
  },
  use_record: nothing,
  // A cookie of the provider can itself be a credential.
  keep_set_cookie: ({ before, after }) => (after.keepSetCookie && !before.keepSetCookie ? ["keep_set_cookie"] : []),
  credentials_in_scripts: ({ before, after }) =>
    after.credentialsInScripts && !before.credentialsInScripts ? ["credentials_in_scripts"] : [],
  // A replaced secret belongs to the caller from then on, and is sent where the old secret was sent.
  secrets: nothing,
  "secrets.client_secret": nothing,
  "secrets.webhook_secret": nothing,
  "secrets.private_key": nothing,
  "secrets.client_certificate": nothing,
  "secrets.client_private_key": nothing,
};

/** Returns the changed fields that let stored credentials be sent, or shown, where they were not before. */
export const exposedFields = (change: IntegrationChange): readonly string[] =>
  Object.values(exposedBy).flatMap((exposed) => exposed(change));

const withOAuth = (
  { oauth = create(OAuthAppSchema) }: Integration,
  change: Partial<OAuthApp>,
): Partial<Integration> => ({
  oauth: { ...oauth, ...change },
});

/** Throws for an empty mask, or one with a field that cannot be changed. */
export function checkIntegrationMask(paths: readonly string[]): void {
  const unknown = paths.filter((path) => !takenBy.has(path) && !secretsTakenBy.has(path));
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
  for (const path of paths) Object.assign(updated, takenBy.get(path)?.(source, updated));
  return updated;
}

/** Returns undefined if the mask names no secret. */
export function updatedSecrets({
  target,
  source,
  paths,
}: Update<IntegrationSecrets | undefined>): IntegrationSecrets | undefined {
  const named = paths.filter((path) => secretsTakenBy.has(path));
  if (named.length === 0) return undefined;
  const given = source.secrets ?? create(IntegrationSecretsSchema);
  const parts = named.map((path) => secretsTakenBy.get(path)?.(given));
  return Object.assign({ ...(target ?? create(IntegrationSecretsSchema)) }, ...parts) as IntegrationSecrets;
}
