import { create, type DescEnum } from "@bufbuild/protobuf";
import {
  type Integration,
  type Integration_Callback,
  Integration_CallbackSchema,
  type Integration_Reflection,
  Integration_ReflectionSchema,
  type Integration_UseRecord,
  Integration_UseRecordSchema,
  type IntegrationField,
  IntegrationField_Kind,
  IntegrationSchema,
  type OAuthApp_Publishing,
  OAuthApp_PublishingSchema,
} from "../../../gen/latchkey/v1/integration_pb.ts";

/** The values of a form, by the fields' paths. Scopes are joined by spaces, other lists by line breaks. */
export type SetupValues = Readonly<Record<string, string>>;

export const listIn = (text: string | undefined): readonly string[] =>
  (text ?? "").split(/\s+/).filter((one) => one !== "");
export const scopesIn = (values: SetupValues): readonly string[] => listIn(values["oauth.scopes"]);

const defaultsPath = "connection_defaults.";
const furtherScopesPath = "oauth.further_scopes.";
const settingsPath = "settings.";
const secretSettingsPath = "secrets.settings.";
const yes = "yes";
const flag = (isOn: boolean | undefined): string => (isOn === true ? yes : "");
const nameOf = ({ values }: DescEnum, number: number | undefined): string =>
  number === undefined || number === 0 ? "" : (values.find((one) => one.number === number)?.name ?? "");
const numberOf = <E extends number>({ values }: DescEnum, name: string | undefined): E =>
  (values.find((one) => one.name === name)?.number ?? 0) as E;

/** Returns an integration with the values of the form. */
export function integrationOf(values: SetupValues): Integration {
  const text = (path: string) => (values[path] ?? "").trim();
  const isOn = (path: string) => values[path] === yes;
  const under = (prefix: string) =>
    Object.fromEntries(
      Object.entries(values).flatMap(([path, value]) =>
        path.startsWith(prefix) ? [[path.slice(prefix.length), value.trim()] as const] : [],
      ),
    );
  return create(IntegrationSchema, {
    displayName: text("display_name"),
    oauth: {
      clientId: text("oauth.client_id"),
      scopes: [...scopesIn(values)],
      furtherScopes: Object.fromEntries(
        Object.entries(withoutEmpty(under(furtherScopesPath))).map(([name, text]) => [
          name,
          { scopes: [...listIn(text)] },
        ]),
      ),
      publishing: numberOf<OAuthApp_Publishing>(OAuthApp_PublishingSchema, values["oauth.publishing"]),
    },
    secrets: {
      clientSecret: text("secrets.client_secret"),
      webhookSecret: text("secrets.webhook_secret"),
      privateKey: text("secrets.private_key"),
      clientCertificate: text("secrets.client_certificate"),
      clientPrivateKey: text("secrets.client_private_key"),
      settings: withoutEmpty(under(secretSettingsPath)),
    },
    connectionDefaults: withoutEmpty(under(defaultsPath)),
    // An empty value removes a setting.
    settings: under(settingsPath),
    callback: numberOf<Integration_Callback>(Integration_CallbackSchema, values["callback"]),
    reflection: numberOf<Integration_Reflection>(Integration_ReflectionSchema, values["reflection"]),
    useRecord: numberOf<Integration_UseRecord>(Integration_UseRecordSchema, values["use_record"]),
    hosts: listIn(values["hosts"]).map(hostRule),
    channels: {
      automatic: isOn("channels.automatic"),
      catchUpSyncs: [...listIn(values["channels.catch_up_syncs"])],
    },
    noForward: isOn("no_forward"),
    keepSetCookie: isOn("keep_set_cookie"),
    credentialsInScripts: isOn("credentials_in_scripts"),
    keepGrants: isOn("keep_grants"),
  });
}

const withoutEmpty = (values: Readonly<Record<string, string>>): Record<string, string> =>
  Object.fromEntries(Object.entries(values).filter(([, value]) => value !== ""));

/** Reads `https://host`, or `/prefix/=https://host`, whose prefix Latchkey ignores with a warning. */
function hostRule(line: string): { readonly prefix: string; readonly origin: string } {
  const at = line.startsWith("/") ? line.indexOf("=") : -1;
  return { prefix: line.slice(0, Math.max(0, at)), origin: line.slice(at + 1) };
}

/** Returns the values of an integration. Secrets are never among them. */
export function valuesOf(integration: Integration): SetupValues {
  const { displayName, oauth, connectionDefaults, settings, hosts, channels } = integration;
  const further = Object.entries(oauth?.furtherScopes ?? {}).map(([name, { scopes }]) => [
    `${furtherScopesPath}${name}`,
    scopes.join(" "),
  ]);
  const defaults = Object.entries(connectionDefaults).map(([name, value]) => [`${defaultsPath}${name}`, value]);
  return {
    display_name: displayName,
    "oauth.client_id": oauth?.clientId ?? "",
    "oauth.scopes": (oauth?.scopes ?? []).join(" "),
    "oauth.publishing": nameOf(OAuthApp_PublishingSchema, oauth?.publishing),
    // The first value of each is that of an integration that names none.
    callback: nameOf(Integration_CallbackSchema, integration.callback) || "CALLBACK_SHARED",
    reflection: nameOf(Integration_ReflectionSchema, integration.reflection) || "REFLECTION_OFF",
    use_record: nameOf(Integration_UseRecordSchema, integration.useRecord) || "USE_RECORD_OFF",
    hosts: hosts.map(({ prefix, origin }) => (prefix === "" ? origin : `${prefix}=${origin}`)).join("\n"),
    "channels.automatic": flag(channels?.automatic),
    "channels.catch_up_syncs": (channels?.catchUpSyncs ?? []).join("\n"),
    no_forward: flag(integration.noForward),
    keep_set_cookie: flag(integration.keepSetCookie),
    credentials_in_scripts: flag(integration.credentialsInScripts),
    keep_grants: flag(integration.keepGrants),
    ...Object.fromEntries(defaults),
    ...Object.fromEntries(further),
    ...Object.fromEntries(Object.entries(settings).map(([name, value]) => [`${settingsPath}${name}`, value])),
  };
}

/** Returns the paths whose values differ. */
export const changedPaths = (before: SetupValues, after: SetupValues): readonly string[] =>
  [...new Set([...Object.keys(before), ...Object.keys(after)])].filter(
    (path) => (before[path] ?? "").trim() !== (after[path] ?? "").trim(),
  );

/** The update mask's path of a field: some fields are replaced as a whole. */
export const maskPathOf = (path: string): string =>
  path.replace(/^(connection_defaults|channels|settings|secrets\.settings|oauth\.further_scopes)\..*$/, "$1");

const keyPattern = /^[A-Za-z0-9][A-Za-z0-9_.~:@-]{0,254}$/;

/** Says what is wrong with the key of a new integration. */
export function problemOfName(key: string): string | undefined {
  if (key === "") return "Enter a key";
  if (keyPattern.test(key)) return undefined;
  return "Use letters, digits and _ . ~ : @ -, beginning with a letter or digit";
}

const longest = 2_048;

/** Says what is wrong with a value, by the field's own rules. */
export function problemOf({ pattern, kind, title, example }: IntegrationField, value: string): string | undefined {
  if (value === "") return undefined;
  if (kind === IntegrationField_Kind.LINES) {
    const isPem = example.startsWith("-----BEGIN");
    return isPem && !value.trim().startsWith("-----BEGIN") ? `Paste the whole PEM text, from ${example}` : undefined;
  }
  if (pattern === "" || value.length > longest) return undefined;
  try {
    if (new RegExp(`^(?:${pattern})$`, "v").test(value.trim())) return undefined;
  } catch {
    /* A pattern of an older description: Latchkey itself checks the value. */
    return undefined;
  }
  return example === "" ? `${title} has another form` : `Write it as in ${example}`;
}
