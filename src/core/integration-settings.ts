import { create } from "@bufbuild/protobuf";
import type { Mistake } from "../base/fault.ts";
import { suggestion } from "../base/similar.ts";
import {
  type Integration,
  type IntegrationSecrets,
  IntegrationSecretsSchema,
} from "../gen/latchkey/v1/integration_pb.ts";
import type { IntegrationSetting, Provider } from "../gen/latchkey/v1/provider_pb.ts";

type Settings = Readonly<Record<string, string>>;
type SettingsProvider = Pick<Provider, "integrationSettings">;

/**
 * Returns the integration with each setting where the provider's description wants it: a secret one among the secrets,
 * wherever the caller put it. An empty value, which removes a setting, goes to both places.
 */
export function withSortedSettings(integration: Integration, provider: SettingsProvider | undefined): Integration {
  const given = { ...integration.settings, ...integration.secrets?.settings };
  const names = Object.keys(given);
  if (names.length === 0) return integration;
  const isSecret = (name: string) =>
    settingNamed(name, provider)?.secret ?? Object.hasOwn(integration.secrets?.settings ?? {}, name);
  const only = (wanted: (name: string) => boolean) =>
    Object.fromEntries(
      names.filter((name) => given[name] === "" || wanted(name)).map((name) => [name, given[name] ?? ""]),
    );
  const secrets = only(isSecret);
  const settings = only((name) => !isSecret(name));
  if (integration.secrets === undefined && Object.keys(secrets).length === 0) return { ...integration, settings };
  return {
    ...integration,
    settings,
    secrets: { ...(integration.secrets ?? create(IntegrationSecretsSchema)), settings: secrets },
  };
}

/** Returns a new integration without settings that have no value. */
export const withoutEmptySettings = ({ settings, secrets, ...rest }: Integration): Integration => ({
  ...rest,
  settings: mergedSettings(settings, {}),
  ...(secrets === undefined ? {} : { secrets: { ...secrets, settings: mergedSettings(secrets.settings, {}) } }),
});

/** Returns the settings with the given ones: an empty value removes one, and the others stay. */
export const mergedSettings = (before: Settings, given: Settings): Record<string, string> =>
  Object.fromEntries(Object.entries({ ...before, ...given }).filter(([, value]) => value !== ""));

/** Returns the settings without those that the description has declared secret since they were stored. */
export const plainSettings = ({ settings }: Pick<Integration, "settings">, provider: SettingsProvider | undefined) =>
  Object.fromEntries(Object.entries(settings).filter(([name]) => settingNamed(name, provider)?.secret !== true));

const maxSettingLength = 4_096;

/** Checks what is set. Never quotes a value. A missing setting is no mistake: the integration warns of it. */
export function checkSettings(
  { settings, secrets }: Pick<Integration, "settings" | "secrets">,
  provider: SettingsProvider | undefined,
): Mistake[] {
  const all = [
    ...Object.entries(settings).map((one) => ({
      path: ["settings", one[0]],
      name: one[0],
      value: one[1],
      most: maxSettingLength,
    })),
    ...Object.entries(secrets?.settings ?? {}).map((one) => ({
      path: ["secrets", "settings", one[0]],
      name: one[0],
      value: one[1],
      most: Number.POSITIVE_INFINITY,
    })),
  ];
  return all.flatMap(({ path, name, value, most }) => {
    if (value === "") return [];
    const message = problemOf({ name, value, most }, provider);
    return message === undefined ? [] : [{ path, message }];
  });
}

interface GivenSetting {
  readonly name: string;
  readonly value: string;
  readonly most: number;
}

function problemOf({ name, value, most }: GivenSetting, provider: SettingsProvider | undefined): string | undefined {
  if (provider === undefined) return "cannot be set: the provider of the integration is not known";
  const described = settingNamed(name, provider);
  if (described === undefined) {
    const names = provider.integrationSettings.map((one) => one.name);
    return `is not a setting of the provider${suggestion(name, names)}`;
  }
  if (value.length > most) return `must have at most ${most} characters`;
  if (described.pattern !== "" && !new RegExp(`^(?:${described.pattern})$`, "u").test(value))
    return "does not have the form that the provider requires";
  // A secret may be a key of several lines.
  const isText = described.secret || !/\p{Cc}/u.test(value);
  return value.isWellFormed() && isText ? undefined : "must be text without control characters";
}

/** The required settings that have no value. */
export function missingSettings(
  { integrationSettings }: SettingsProvider,
  {
    settings,
    secrets,
  }: { readonly settings: Settings; readonly secrets: Pick<IntegrationSecrets, "settings"> | undefined },
): readonly IntegrationSetting[] {
  const has = (values: Settings | undefined, name: string) => (ownValue(values, name) ?? "") !== "";
  return integrationSettings.filter(
    ({ name, required }) => required && !has(settings, name) && !has(secrets?.settings, name),
  );
}

const ownValue = (values: Settings | undefined, name: string): string | undefined =>
  values !== undefined && Object.hasOwn(values, name) ? values[name] : undefined;

const settingNamed = (name: string, provider: SettingsProvider | undefined): IntegrationSetting | undefined =>
  provider?.integrationSettings.find((one) => one.name === name);
