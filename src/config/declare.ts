import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { pathText } from "../base/yaml-places.ts";
import { checkBranding } from "../core/branding.ts";
import type { DeclaredSetup } from "../core/declared.ts";
import { checkIntegrationSecrets } from "../core/integration-secrets.ts";
import { defaultLimitedScopes, defaultScopes, scopesByName } from "../core/scopes.ts";
import {
  Integration_Callback,
  Integration_Reflection,
  Integration_UseRecord,
  IntegrationSchema,
  OAuthApp_Publishing,
} from "../gen/latchkey/v1/integration_pb.ts";
import { ProviderMistake, readProvider } from "../providers/read.ts";
import { limitsOf } from "./access/key-limits.ts";
import type { ConfigFile, SecretReference } from "./file.ts";
import { forwardSecretOf, forwardUrlOf } from "./forward.ts";
import { declaredPolicies } from "./policies/declared-policies.ts";
import type { ReadFile } from "./read-file.ts";
import type { SecretSource } from "./secrets.ts";
import { pinned, type Refuse } from "./values.ts";

interface DeclaredSource extends ReadFile {
  readonly secrets: SecretSource;
  readonly refuse: Refuse;
}

/** Returns the setup that the configuration file declares. */
export function declaredIn({ secrets, refuse, ...read }: DeclaredSource): DeclaredSetup {
  const { file, locate } = read;
  const resolve = (at: string, reference: SecretReference | undefined): string | undefined => {
    if (reference === undefined) return undefined;
    const outcome = "env" in reference ? secrets.fromVariable(reference.env) : secrets.fromFile(reference.file);
    if ("value" in outcome) return outcome.value;
    refuse(`${at}: ${outcome.mistake}`);
    return undefined;
  };
  const { environments = [], integrations = [], providers = [] } = file;
  const keys = environments.flatMap(({ name, keys: own = [] }, i) =>
    own.map((key, j) => ({ ...key, environment: name, at: ["environments", i, "keys", j] })),
  );

  const forwardUrl = (i: number, field: "url" | "secondary", value: string | undefined): string => {
    const name = `${locate(["environments", i, "forward", field])}: forward.${field}`;
    return forwardUrlOf({ name, value, refuse }) ?? "";
  };

  return {
    policies: declaredPolicies({ ...read, refuse }),
    environments: environments.map(({ name, forward, allowed_origins: allowedOrigins, branding }, i) => ({
      name,
      forwardUrl: forwardUrl(i, "url", forward?.url),
      secondaryForwardUrl: forwardUrl(i, "secondary", forward?.secondary),
      allowedOrigins,
      branding: branding && brandingOf({ name: locate(["environments", i, "branding"]), branding, refuse }),
    })),
    signingSecrets: environments.flatMap(({ name, forward: { secret = [] } = {} }, i) => {
      const references = Array.isArray(secret) ? secret : [secret];
      const values = references.flatMap((reference) => {
        const at = `${locate(["environments", i, "forward", "secret"])}: forward.secret`;
        return forwardSecretOf({ name: at, value: resolve(at, reference), refuse }) ?? [];
      });
      if (new Set(values).size < values.length)
        refuse(`${locate(["environments", i, "forward", "secret"])}: must not have the same forward.secret twice`);
      return values.length === 0 ? [] : [{ environment: name, secrets: values }];
    }),
    variables: environments.flatMap(({ name: environment, variables = {} }, i) =>
      Object.entries(variables).flatMap(([name, given]) => {
        const at = `${locate(["environments", i, "variables", name])}: variables.${name}`;
        const value = typeof given === "string" ? given : resolve(at, given);
        return value === undefined ? [] : [{ environment, name, value }];
      }),
    ),
    keys: keys.flatMap(({ id, environment, key, scopes = [], limits: given, at }) => {
      const name = `${locate([...at, "key"])}: the key "${id}"`;
      const secret = resolve(name, key);
      if (scopes.includes("admin"))
        refuse(`${locate([...at, "scopes"])}: the key "${id}": admin is not a scope of an environment's key`);
      pinned({ name, value: secret, refuse });
      const known = scopes.flatMap((scope) => scopesByName.get(scope) ?? []);
      const limits =
        given && limitsOf({ id, limits: given, scopes: known, locate: (path) => locate([...at, ...path]), refuse });
      const usual = limits === undefined ? defaultScopes : defaultLimitedScopes;
      return secret === undefined
        ? []
        : [{ id, environment, secret, scopes: scopes.length === 0 ? usual : known, limits }];
    }),
    integrations: integrations.map((one, i) => {
      const at = (name: string) => {
        const isOfApp = name === "client_secret" || name === "private_key";
        const place = name.split(".");
        return `${locate(["integrations", i, ...(isOfApp ? ["oauth"] : []), ...place])}: the integration "${one.key}": ${name}`;
      };
      const made = create(
        IntegrationSchema,
        integrationOf(one, (name, reference) => resolve(at(name), reference)),
      );
      for (const { path, message } of checkIntegrationSecrets(made.secrets))
        refuse(`${at(path.at(-1) ?? "")}: ${message}`);
      return made;
    }),
    providers: providers.flatMap((description, i) => {
      try {
        return [readProvider(description)];
      } catch (error) {
        if (!(error instanceof ProviderMistake)) throw error;
        for (const { path, message } of error.mistakes) {
          const whole = ["providers", i, ...path];
          refuse(`${locate(whole)}: ${pathText(whole)}: ${message}`);
        }
        return [];
      }
    }),
  };
}

type FileBranding = NonNullable<NonNullable<ConfigFile["environments"]>[number]["branding"]>;

function brandingOf({ name: at, branding, refuse }: { name: string; branding: FileBranding; refuse: Refuse }) {
  const { name = "", logo = "", accent_color: accentColor = "", support_url: supportUrl = "" } = branding;
  const fields = { name, logo, accentColor, supportUrl };
  for (const { path, message } of checkBranding(fields, ["branding"])) refuse(`${at}: ${path.join(".")} ${message}`);
  return fields;
}

type FileIntegration = NonNullable<ConfigFile["integrations"]>[number];
type ResolveSecret = (name: string, reference: SecretReference | undefined) => string | undefined;

function integrationOf(one: FileIntegration, resolve: ResolveSecret): MessageInitShape<typeof IntegrationSchema> {
  const { oauth, settings = {} } = one;
  const plain = Object.entries(settings).filter((entry): entry is [string, string] => typeof entry[1] === "string");
  const hidden = Object.entries(settings).flatMap(([name, given]): [string, string][] => {
    const value = typeof given === "string" ? undefined : resolve(`settings.${name}`, given);
    return value === undefined ? [] : [[name, value]];
  });
  const secrets = {
    clientSecret: resolve("client_secret", oauth?.client_secret) ?? "",
    privateKey: resolve("private_key", oauth?.private_key) ?? "",
    webhookSecret: resolve("webhook_secret", one.webhook_secret) ?? "",
    clientCertificate: resolve("client_certificate", one.client_certificate) ?? "",
    clientPrivateKey: resolve("client_private_key", one.client_private_key) ?? "",
  };
  return {
    environment: one.environment,
    key: one.key,
    provider: one.provider ?? "",
    mcpUrl: one.mcp ?? "",
    displayName: one.display_name ?? "",
    ...(oauth === undefined
      ? {}
      : {
          oauth: {
            clientId: oauth.client_id ?? "",
            scopes: oauth.scopes ?? [],
            furtherScopes: furtherScopes(oauth.further_scopes),
            publishing: publishing[oauth.publishing ?? ""] ?? 0,
          },
        }),
    ...(hidden.length > 0 || Object.values(secrets).some((value) => value !== "")
      ? { secrets: { ...secrets, settings: Object.fromEntries(hidden) } }
      : {}),
    settings: Object.fromEntries(plain),
    callback: callbacks[one.callback ?? ""] ?? 0,
    hosts: (one.hosts ?? []).map(({ prefix = "", origin }) => ({ prefix, origin })),
    ...(one.channels === undefined ? {} : { channels: channelSettings(one.channels) }),
    reflection: reflections[one.reflection ?? ""] ?? 0,
    noForward: one.forward === false,
    connectionDefaults: one.connection_defaults ?? {},
    useRecord: useRecords[one.use_record ?? ""] ?? 0,
    keepSetCookie: one.keep_set_cookie ?? false,
    credentialsInScripts: one.credentials_in_scripts ?? false,
    keepGrants: one.keep_grants ?? false,
  };
}

const furtherScopes = (given: Readonly<Record<string, string[]>> = {}) =>
  Object.fromEntries(Object.entries(given).map(([name, scopes]) => [name, { scopes }]));

const channelSettings = ({
  automatic = false,
  catch_up_syncs: catchUpSyncs = [],
}: NonNullable<FileIntegration["channels"]>) => ({ automatic, catchUpSyncs });

const publishing: Readonly<Record<string, OAuthApp_Publishing>> = {
  testing: OAuthApp_Publishing.TESTING,
  production: OAuthApp_Publishing.PRODUCTION,
};
const callbacks: Readonly<Record<string, Integration_Callback>> = {
  shared: Integration_Callback.SHARED,
  bound: Integration_Callback.BOUND,
};
const reflections: Readonly<Record<string, Integration_Reflection>> = {
  off: Integration_Reflection.OFF,
  mask: Integration_Reflection.MASK,
  refuse: Integration_Reflection.REFUSE,
};
const useRecords: Readonly<Record<string, Integration_UseRecord>> = {
  off: Integration_UseRecord.OFF,
  host: Integration_UseRecord.HOST,
  path: Integration_UseRecord.PATH,
};
