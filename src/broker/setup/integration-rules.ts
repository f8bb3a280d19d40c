import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { Fault, type Mistake } from "../../base/fault.ts";
import { newCallback } from "../../core/callback-address.ts";
import { checkIntegrationSecrets } from "../../core/integration-secrets.ts";
import { checkSettings } from "../../core/integration-settings.ts";
import {
  type Integration,
  Integration_Callback,
  type IntegrationSecrets,
} from "../../gen/latchkey/v1/integration_pb.ts";
import type { Provider } from "../../gen/latchkey/v1/provider_pb.ts";

/** Returns the integration as it is stored: without secrets and without fields that are computed when it is shown. */
export function storedIntegration(integration: Integration, nowMs: number, before?: Integration): Integration {
  const { secrets: _, ...rest } = integration;
  return {
    ...rest,
    warnings: [],
    callbackUrl: "",
    mcpUrl: "",
    createdAt: before?.createdAt ?? timestampFromMs(nowMs),
    updatedAt: timestampFromMs(nowMs),
  };
}

/**
 * Fills in the form of the redirect URI if the integration names none: the previous form, or else the provider's
 * default.
 */
export const withCallback = (
  integration: Integration,
  provider: Provider | undefined,
  before: Integration_Callback = newCallback(provider),
): Integration =>
  integration.callback === Integration_Callback.UNSPECIFIED ? { ...integration, callback: before } : integration;

export function requireUndeclared({ key, declared }: Integration): void {
  if (declared) {
    throw new Fault("read_only", `the integration "${key}" is declared in the configuration file; change it there`);
  }
}

interface ValidatedIntegration extends Pick<Integration, "hosts"> {
  readonly secrets: IntegrationSecrets | undefined;
  /** The settings that the request names. */
  readonly given: Pick<Integration, "settings" | "secrets">;
}

export function requireValidIntegration(
  { hosts, secrets, given }: ValidatedIntegration,
  provider: Provider | undefined,
): void {
  const mistakes: Mistake[] = [
    ...hosts.flatMap(({ origin }, i) =>
      URL.canParse(origin) && new URL(origin).origin === origin && origin.startsWith("https://")
        ? []
        : [{ path: ["hosts", String(i), "origin"], message: "must be https://host or https://host:port" }],
    ),
    ...checkIntegrationSecrets(secrets),
    ...checkSettings(given, provider),
  ];
  if (mistakes.length > 0) throw new Fault("invalid_body", "the integration is not valid", { mistakes });
}
