import type { Connection } from "../../gen/latchkey/v1/connection_pb.ts";
import type { Credentials } from "../../gen/latchkey/v1/credentials_pb.ts";
import type { Integration, IntegrationSecrets } from "../../gen/latchkey/v1/integration_pb.ts";
import type { ConnectionField, Provider } from "../../gen/latchkey/v1/provider_pb.ts";
import { integrationValue, isSecretSetting } from "../integration-values.ts";

/** Reads what `${…}` stands for by its text, such as `connectionConfig.tenantId`; undefined: there is no value. */
export type ReadValue = (placeholder: string) => string | undefined;

/** The values of a connection and its integration, for the requests of its provider's description. */
export interface PlaceholderValues {
  readonly read: ReadValue;
  /** Whether the value of a placeholder is a secret. */
  readonly isSecret: (placeholder: string) => boolean;
}

interface ValueSources {
  readonly connection: Pick<Connection, "connectionConfig">;
  readonly integration: Pick<Integration, "oauth" | "settings" | "connectionDefaults">;
  readonly secrets: Pick<IntegrationSecrets, "settings"> | undefined;
  readonly provider: Pick<Provider, "connectionFields">;
  readonly credentials: Credentials;
}

/** Values that the connection's field does not allow count as missing: they are checked on every use. */
export function placeholderValues(sources: ValueSources): PlaceholderValues {
  const { connection, integration, secrets, provider } = sources;
  const config = connection.connectionConfig ?? {};
  const defaults = integration.connectionDefaults;
  return {
    read(placeholder) {
      const [from = "", name = ""] = partsOf(placeholder);
      if (from === "integration") return integrationValue(name, sources);
      if (from !== "connectionConfig") return undefined;
      const field = provider.connectionFields.find((one) => one.name === name);
      const value = textOf(config, name) ?? textOf(defaults, name) ?? (field?.defaultValue || undefined);
      return value !== undefined && fits(value, field) ? value : undefined;
    },
    isSecret(placeholder) {
      const [from, name = ""] = partsOf(placeholder);
      return from === "integration" && isSecretSetting(name, secrets);
    },
  };
}

function partsOf(placeholder: string): readonly string[] {
  const at = placeholder.indexOf(".");
  return at === -1 ? [placeholder] : [placeholder.slice(0, at), placeholder.slice(at + 1)];
}

/** Providers write IDs as numbers as well. */
function textOf(values: Readonly<Record<string, unknown>>, name: string): string | undefined {
  const value = Object.hasOwn(values, name) ? values[name] : undefined;
  if (typeof value === "string" && value !== "") return value;
  return typeof value === "number" && Number.isSafeInteger(value) ? String(value) : undefined;
}

const fits = (value: string, field: ConnectionField | undefined): boolean =>
  field === undefined || field.pattern === "" || new RegExp(`^(?:${field.pattern})$`, "u").test(value);
