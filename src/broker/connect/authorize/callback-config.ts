import { checkConnectionConfig } from "../../../core/connection-rules.ts";
import type { OAuth2Rules, Provider } from "../../../gen/latchkey/v1/provider_pb.ts";
import { AuthorizationFailure } from "./failure.ts";

/**
 * Returns the values of a callback that the provider's description stores in `connection_config`. Throws for a value
 * that a field does not allow: anyone can change a callback, for example to a host of their own.
 */
export function callbackConfig(
  parameters: URLSearchParams,
  { callbackConfig: names }: Pick<OAuth2Rules, "callbackConfig">,
  { connectionFields }: Pick<Provider, "connectionFields">,
): Record<string, string> {
  const found = Object.entries(names).flatMap(([name, parameter]): [string, string][] => {
    const value = parameters.get(parameter) ?? "";
    return value === "" ? [] : [[name, value]];
  });
  const config = Object.fromEntries(found);
  const fields = connectionFields.filter(({ name }) => Object.hasOwn(names, name));
  const isDescribed = Object.keys(config).every((name) => fields.some((field) => field.name === name));
  if (isDescribed && checkConnectionConfig(config, fields.map(withoutDefault)).length === 0) return config;
  throw new AuthorizationFailure(
    "provider_error",
    "The provider's answer lacks a value, or has one that is not allowed.",
    "connection_config",
  );
}

/** A default does not stand for a value that the callback must bring. */
const withoutDefault = <T extends { readonly defaultValue: string }>(field: T): T => ({ ...field, defaultValue: "" });
