import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { integrationValue } from "../../core/integration-values.ts";
import type { RevocationTask } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import type { RequestTemplate } from "../../gen/latchkey/v1/provider_pb.ts";
import type { ConnectionRequest } from "../credentials/connection-request.ts";
import { clientOf, grantTokensOf } from "./grant-tokens.ts";

const placeholder = /\$\{([^}]+)\}/g;

/** Returns the value of a placeholder; undefined if there is none. */
export type PlaceholderValue = (name: string) => string | undefined;

/** Values for the placeholders of a revocation request. */
export function revocationValues(task: RevocationTask): PlaceholderValue {
  const { connection, credentials, integration, secrets } = task;
  const tokens = new Map((credentials === undefined ? [] : grantTokensOf(credentials)).map((one) => [one.name, one]));
  const config: JsonObject = { ...integration?.connectionDefaults, ...connection?.connectionConfig };
  return (name) => {
    if (name === "accessToken") return tokens.get("access_token")?.value;
    if (name === "refreshToken") return tokens.get("refresh_token")?.value;
    if (name === "integration.clientSecret") return clientOf(task).secret || undefined;
    const [, setting] = /^integration\.(.+)$/s.exec(name) ?? [];
    if (setting !== undefined) {
      return integration === undefined ? undefined : integrationValue(setting, { integration, secrets, credentials });
    }
    const [, field] = /^connectionConfig\.(.+)$/s.exec(name) ?? [];
    const value = field !== undefined && Object.hasOwn(config, field) ? config[field] : undefined;
    return typeof value === "string" && value !== "" ? value : undefined;
  };
}

/** Fills a request; undefined if a value is missing, in which case the request must not be sent. */
export function filledRevocation(
  template: RequestTemplate,
  placeholderValue: PlaceholderValue,
): ConnectionRequest | undefined {
  const { method, path, body, format, headers } = template;
  const all = [path, body, ...Object.values(headers)].join(" ");
  const names = [...all.matchAll(placeholder)].map(([, name = ""]) => name);
  if (names.some((name) => placeholderValue(name) === undefined)) return undefined;
  // `.` and `..` are not valid path segments, in any encoding.
  if ([...path.matchAll(placeholder)].some(([, name = ""]) => /^\.{1,2}$/.test(placeholderValue(name) ?? "")))
    return undefined;
  const inText = (text: string, written: (value: string) => string) =>
    text.replaceAll(placeholder, (_, name: string) => written(placeholderValue(name) ?? ""));
  const filledPath = inText(path, encodeURIComponent);
  const [, baseUrl, rest] = /^(https:\/\/[^/]+)(\/.*)?$/.exec(filledPath) ?? [];
  const isForm = format === "form";
  const content =
    body === ""
      ? undefined
      : Buffer.from(
          isForm
            ? inText(body, encodeURIComponent)
            : JSON.stringify(filledJson(JSON.parse(body) as JsonValue, placeholderValue)),
        );
  const type = isForm ? "application/x-www-form-urlencoded" : "application/json";
  return {
    method: method || "POST",
    path: baseUrl === undefined ? filledPath : (rest ?? "/"),
    rawHeaders: [
      ...["Accept", "application/json"],
      ...(content === undefined ? [] : ["Content-Type", type]),
      ...Object.entries(headers).flatMap(([name, value]) => [name, inText(value, (one) => one)]),
    ],
    content,
    baseUrl,
  };
}

/** Fills in values after parsing, so that no value can break out of its text. */
function filledJson(value: JsonValue, placeholderValue: PlaceholderValue): JsonValue {
  if (typeof value === "string")
    return value.replaceAll(placeholder, (_, name: string) => placeholderValue(name) ?? "");
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map((one) => filledJson(one, placeholderValue));
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, filledJson(one, placeholderValue)]));
}

/** Whether a request contains the access token, beside its use as the connection's credentials. */
export const namesAccessToken = ({ path, body, headers }: RequestTemplate): boolean =>
  [path, body, ...Object.values(headers)].some((text) => text.includes("${accessToken}"));
