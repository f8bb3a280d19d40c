import { create } from "@bufbuild/protobuf";
import type { IntegrationField } from "../../gen/latchkey/v1/integration_pb.ts";
import { type Provider, type SetupStep, SetupStepSchema } from "../../gen/latchkey/v1/provider_pb.ts";
import { hasCallback } from "../callback-address.ts";

/** Returns what to do in the provider's console: the description's own steps, or steps that follow from its kind. */
export function setupSteps(provider: Provider, fields: readonly IntegrationField[]): SetupStep[] {
  const { setupSteps: own } = provider;
  const steps = own.length > 0 ? own : stepsOfAuth(provider, fields);
  const has = (wanted: string) => steps.some(({ value }) => value === wanted);
  return [...steps, ...stepsOfWebhooks(provider, fields).filter(({ value }) => !has(value))];
}

const step = (text: string, value: SetupStep["value"] = "") => create(SetupStepSchema, { text, value });
const hasField = (fields: readonly IntegrationField[], path: string) => fields.some((one) => one.path === path);

function stepsOfAuth(provider: Provider, fields: readonly IntegrationField[]): SetupStep[] {
  const name = provider.displayName || provider.name;
  if (hasCallback(provider)) {
    return [
      step(`Create an OAuth app at ${name}.`),
      step("Enter this redirect URI in the app.", "callback_url"),
      ...(provider.auth.case === "oauth2" ? [step("Allow the app the scopes that you request.", "scopes")] : []),
      step("Copy the client ID and the client secret to Latchkey.", "client"),
    ];
  }
  if (hasField(fields, "secrets.private_key"))
    return [step(`Create an app at ${name}, and copy its private key to Latchkey.`)];
  return fields.some(({ required }) => required)
    ? [step(`Create an app at ${name}, and copy its client ID and secret to Latchkey.`, "client")]
    : [];
}

/** Latchkey itself registers the URL of channels. */
function stepsOfWebhooks({ notification, channel }: Provider, fields: readonly IntegrationField[]): SetupStep[] {
  if (notification === undefined || channel !== undefined) return [];
  const hasOwnSecret = hasField(fields, "secrets.webhook_secret") && notification.signature?.keyDefault === "";
  return [
    step("To receive webhooks, register this URL.", "webhook_url"),
    ...(hasOwnSecret ? [step("Copy the secret that signs webhooks to Latchkey.", "webhook_secret")] : []),
  ];
}
