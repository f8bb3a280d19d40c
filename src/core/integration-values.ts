import type { Credentials } from "../gen/latchkey/v1/credentials_pb.ts";
import type { Integration, IntegrationSecrets } from "../gen/latchkey/v1/integration_pb.ts";

export interface IntegrationParts {
  readonly integration: Pick<Integration, "oauth" | "settings">;
  readonly secrets: Pick<IntegrationSecrets, "settings"> | undefined;
  /** Those of a connection with an OAuth app of its own: its client ID takes precedence. */
  readonly credentials?: Credentials | undefined;
}

/**
 * Returns what `${integration.NAME}` stands for: a setting, plain or secret, or `clientId`; undefined if it has no
 * value. The client secret is not among them: only token requests and revocations may contain it.
 */
export function integrationValue(name: string, parts: IntegrationParts): string | undefined {
  const { integration, secrets, credentials } = parts;
  if (name === "clientId") return ownClientId(credentials) || integration.oauth?.clientId || undefined;
  return own(secrets?.settings, name) || own(integration.settings, name) || undefined;
}

/** Whether the value of a setting is stored as a secret. */
export const isSecretSetting = (name: string, secrets: IntegrationParts["secrets"]): boolean =>
  (own(secrets?.settings, name) ?? "") !== "";

function ownClientId(credentials: Credentials | undefined): string {
  const { kind } = credentials ?? {};
  switch (kind?.case) {
    case "oauth2":
      return kind.value.configOverride?.clientId ?? "";
    case "oauth2Client":
      return kind.value.clientId;
    default:
      return "";
  }
}

const own = (values: Readonly<Record<string, string>> | undefined, name: string): string | undefined =>
  values !== undefined && Object.hasOwn(values, name) ? values[name] : undefined;
