import { create } from "@bufbuild/protobuf";
import { Fault } from "../../base/fault.ts";
import { mergedSettings, withSortedSettings } from "../../core/integration-settings.ts";
import { withRegistration } from "../../core/mcp/client-registration.ts";
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
import { requireValidIntegration, withCallback } from "./integration-rules.ts";

type TakeFields = (source: Integration, target: Integration) => Partial<Integration>;

/** Fields of an integration that an update mask may name, each with the part that it copies. */
const fields = {
  display_name: ({ displayName }) => ({ displayName }),
  oauth: ({ oauth }) => ({ oauth: oauth ?? create(OAuthAppSchema) }),
  "oauth.client_id": ({ oauth }, target) => withOAuth(target, { clientId: oauth?.clientId ?? "" }),
  "oauth.scopes": ({ oauth }, target) => withOAuth(target, { scopes: oauth?.scopes ?? [] }),
  "oauth.publishing": ({ oauth }, target) => withOAuth(target, { publishing: oauth?.publishing ?? 0 }),
  "oauth.further_scopes": ({ oauth }, target) => withOAuth(target, { furtherScopes: oauth?.furtherScopes ?? {} }),
  callback: ({ callback }) => ({ callback }),
  hosts: ({ hosts }) => ({ hosts }),
  channels: ({ channels }) => ({ channels }) as Partial<Integration>,
  reflection: ({ reflection }) => ({ reflection }),
  no_forward: ({ noForward }) => ({ noForward }),
  connection_defaults: ({ connectionDefaults }) => ({ connectionDefaults }),
  use_record: ({ useRecord }) => ({ useRecord }),
  keep_set_cookie: ({ keepSetCookie }) => ({ keepSetCookie }),
  credentials_in_scripts: ({ credentialsInScripts }) => ({ credentialsInScripts }),
  settings: ({ settings }, target) => ({ settings: mergedSettings(target.settings, settings) }),
  keep_grants: ({ keepGrants }) => ({ keepGrants }),
} satisfies Readonly<Record<string, TakeFields>>;

type TakeSecrets = (source: IntegrationSecrets, target: IntegrationSecrets) => Partial<IntegrationSecrets>;

const secretFields = {
  secrets: ({ $typeName: _, $unknown: __, ...all }) => ({ ...all, settings: mergedSettings(all.settings, {}) }),
  "secrets.client_secret": ({ clientSecret }) => ({ clientSecret }),
  "secrets.webhook_secret": ({ webhookSecret }) => ({ webhookSecret }),
  "secrets.private_key": ({ privateKey }) => ({ privateKey }),
  "secrets.client_certificate": ({ clientCertificate }) => ({ clientCertificate }),
  "secrets.client_private_key": ({ clientPrivateKey }) => ({ clientPrivateKey }),
  "secrets.settings": ({ settings }, target) => ({ settings: mergedSettings(target.settings, settings) }),
} satisfies Readonly<Record<string, TakeSecrets>>;

const takenBy: ReadonlyMap<string, TakeFields> = new Map(Object.entries(fields));
const secretsTakenBy: ReadonlyMap<string, TakeSecrets> = new Map(Object.entries(secretFields));

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
  "oauth.further_scopes": nothing,
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
  keep_grants: nothing,
  secrets: nothing,
  "secrets.client_secret": nothing,
  "secrets.webhook_secret": nothing,
  "secrets.private_key": nothing,
  "secrets.client_certificate": nothing,
  "secrets.client_private_key": nothing,
  // Settings go where the description says, which never is a host.
  settings: nothing,
  "secrets.settings": nothing,
};

/** Returns the changed fields that let stored credentials be sent, or shown, where they were not before. */
const exposedFields = (change: IntegrationChange): readonly string[] =>
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

function updatedIntegration({ target, source, paths }: Update<Integration>): Integration {
  const updated = { ...target };
  for (const path of paths) Object.assign(updated, takenBy.get(path)?.(source, updated));
  return updated;
}

/** Returns undefined if the mask names no secret. */
function updatedSecrets({
  target,
  source,
  paths,
}: Update<IntegrationSecrets | undefined>): IntegrationSecrets | undefined {
  const named = paths.filter((path) => secretsTakenBy.has(path));
  if (named.length === 0) return undefined;
  const given = source.secrets ?? create(IntegrationSecretsSchema);
  const updated = { ...(target ?? create(IntegrationSecretsSchema)) };
  for (const path of named) Object.assign(updated, secretsTakenBy.get(path)?.(given, updated));
  return updated;
}

/** Returns the mask with the places that settings were moved to: the description says which are secret. */
function withMovedSettings(mask: readonly string[], { settings, secrets }: Integration): readonly string[] {
  const places = { settings, "secrets.settings": secrets?.settings ?? {} };
  const moved = Object.entries(places).filter(([, values]) => Object.keys(values).length > 0);
  return [...new Set([...mask, ...moved.map(([place]) => place)])];
}

/** Returns the integration with only those settings that the mask names. */
function namedSettings(integration: Integration, mask: readonly string[]): Integration {
  const { settings, secrets } = integration;
  const hasSecrets = mask.includes("secrets") || mask.includes("secrets.settings");
  return {
    ...integration,
    settings: mask.includes("settings") ? settings : {},
    ...(secrets === undefined ? {} : { secrets: { ...secrets, settings: hasSecrets ? secrets.settings : {} } }),
  };
}

/** Returns the changed fields for the audit log: settings by name. */
export function changedFields({ settings, secrets }: Integration, mask: readonly string[]): readonly string[] {
  const namesOf = (prefix: string, values: Readonly<Record<string, string>>) =>
    Object.keys(values).map((name) => `${prefix}.${name}`);
  return [
    ...mask.filter((path) => path !== "settings" && path !== "secrets.settings"),
    ...namesOf("settings", settings),
    ...namesOf("secrets.settings", secrets?.settings ?? {}),
  ];
}

interface RequestedUpdate {
  /** What is stored, with a new time of change. */
  readonly target: Integration;
  readonly former: IntegrationSecrets | undefined;
  readonly wanted: Integration;
  readonly mask: readonly string[];
  readonly provider: Provider | undefined;
}

interface PlannedUpdate {
  readonly after: Integration;
  /** Undefined if no secret changes. */
  readonly secrets: IntegrationSecrets | undefined;
  /** The request, with each setting in its place. */
  readonly source: Integration;
  /** Changed fields that expose stored credentials. */
  readonly fields: readonly string[];
}

/** Returns what an update stores. Throws for values that are not valid. */
export function plannedUpdate({ target, former, wanted, mask, provider }: RequestedUpdate): PlannedUpdate {
  const source = withSortedSettings(namedSettings(wanted, mask), provider);
  const paths = withMovedSettings(mask, source);
  const updated = updatedIntegration({ target, source, paths });
  const shaped = paths.includes("callback") ? withCallback(updated, provider) : updated;
  const after = withRegistration(shaped, { before: target, provider });
  const secrets = updatedSecrets({ target: former, source, paths });
  requireValidIntegration({ hosts: after.hosts, secrets, given: source }, provider);
  return { after, secrets, source, fields: exposedFields({ before: target, after, provider }) };
}
