import { randomUUID } from "node:crypto";
import { version } from "../base/version.ts";
import type { SamplerConfig } from "../tracing/sampler.ts";
import type { TracingConfig } from "../tracing/tracing.ts";
import type { FileReader } from "./secrets.ts";
import { describeUnreadable } from "./unreadable.ts";
import { choice, type Refuse } from "./values.ts";
import type { VariableName } from "./variables.ts";

/** A variable of OpenTelemetry. Other programs in the pod may use it too, so it is read only if tracing is on. */
export type TracingVariable = Extract<VariableName, `OTEL_${string}`>;

interface TracingSource {
  /** Returns a variable, or the variable for traces only, which takes precedence. */
  readonly text: (name: TracingVariable) => { readonly name: string; readonly value: string | undefined };
  readonly files: FileReader;
  readonly refuse: Refuse;
  readonly warn: Refuse;
}

/** Returns undefined if tracing is off. */
export function tracingOf(source: TracingSource): TracingConfig | undefined {
  const { refuse } = source;
  const value = (name: TracingVariable) => source.text(name).value;
  const choose = <T extends string>(name: TracingVariable, of: readonly [T, ...T[]]): T =>
    choice({ name: source.text(name).name, text: value(name)?.toLowerCase() ?? of[0], of, refuse });
  const isWanted = value("OTEL_EXPORTER_OTLP_ENDPOINT") !== undefined || value("OTEL_TRACES_EXPORTER") === "otlp";
  if (!isWanted || choose("OTEL_SDK_DISABLED", ["false", "true"]) === "true") return undefined;
  if (choose("OTEL_TRACES_EXPORTER", ["otlp", "none"]) === "none") return undefined;

  if (choose("OTEL_EXPORTER_OTLP_PROTOCOL", ["http/json", "http/protobuf"]) === "http/protobuf") {
    source.warn("spans are sent as http/json instead of http/protobuf: OTLP collectors accept both at the same URL");
  }
  const maxWaiting = countOf(source, { name: "OTEL_BSP_MAX_QUEUE_SIZE", fallback: 2_048, max: 100_000 });
  const maxBatch = countOf(source, { name: "OTEL_BSP_MAX_EXPORT_BATCH_SIZE", fallback: 512, max: 10_000 });
  return {
    endpoint: endpointOf(source),
    headers: Object.fromEntries(pairsOf(source, "OTEL_EXPORTER_OTLP_HEADERS", /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/)),
    timeoutMs: countOf(source, { name: "OTEL_EXPORTER_OTLP_TIMEOUT", fallback: 10_000, max: 600_000 }),
    ca: authorityOf(source),
    delayMs: countOf(source, { name: "OTEL_BSP_SCHEDULE_DELAY", fallback: 5_000, max: 600_000 }),
    maxWaiting,
    maxBatch: Math.min(maxBatch, maxWaiting),
    sampler: samplerOf(source),
    resource: {
      "service.name": "latchkey",
      "service.version": version,
      // Unique for each process, to tell replicas apart.
      "service.instance.id": randomUUID(),
      ...Object.fromEntries(pairsOf(source, "OTEL_RESOURCE_ATTRIBUTES", /^[\x21-\x7e]+$/)),
      ...nameOf(value("OTEL_SERVICE_NAME")),
    },
  };
}

const nameOf = (name: string | undefined) => (name === undefined ? {} : { "service.name": name });

/** The specification's default, for when only the exporter is set. */
const defaultEndpoint = "http://localhost:4318";
const tracesPath = "v1/traces";

function endpointOf({ text, refuse }: TracingSource): string {
  const { name, value = defaultEndpoint } = text("OTEL_EXPORTER_OTLP_ENDPOINT");
  const url = /^https?:\/\//i.test(value) && URL.canParse(value) ? new URL(value) : undefined;
  // The message does not quote the value, which may contain a password.
  if (url === undefined || url.username + url.password + url.hash !== "") {
    refuse(`${name} must be http://host:port or https://host, without a user`);
    return defaultEndpoint;
  }
  // The variable for traces only is a complete URL.
  if (name === "OTEL_EXPORTER_OTLP_ENDPOINT") url.pathname = `${url.pathname.replace(/\/+$/, "")}/${tracesPath}`;
  return url.href;
}

function authorityOf({ text, files, refuse }: TracingSource): string | undefined {
  const { name, value: path } = text("OTEL_EXPORTER_OTLP_CERTIFICATE");
  if (path === undefined) return undefined;
  try {
    const { text: pem } = files.read(path);
    if (pem.includes("-----BEGIN CERTIFICATE-----")) return pem;
    refuse(`${name}: ${path} holds no certificate in PEM`);
  } catch (error) {
    refuse(`${name}: ${describeUnreadable(path, error)}`);
  }
  return undefined;
}

const samplerNames = [
  "parentbased_always_on",
  "parentbased_always_off",
  "parentbased_traceidratio",
  "always_on",
  "always_off",
  "traceidratio",
] as const satisfies readonly SamplerConfig["name"][];

function samplerOf({ text, refuse }: TracingSource): SamplerConfig {
  const { name: variable, value } = text("OTEL_TRACES_SAMPLER");
  const name = choice({ name: variable, text: value ?? samplerNames[0], of: samplerNames, refuse });
  const { name: argument, value: written = "1" } = text("OTEL_TRACES_SAMPLER_ARG");
  const ratio = Number(written);
  // Other samplers ignore the argument.
  if (name.endsWith("ratio") && !(ratio >= 0 && ratio <= 1)) refuse(`${argument} must be a number from 0 to 1`);
  return { name, ratio };
}

interface NumberVariable {
  readonly name: TracingVariable;
  readonly fallback: number;
  readonly max: number;
}

function countOf({ text, refuse }: TracingSource, { name: variable, fallback, max }: NumberVariable): number {
  const { name, value } = text(variable);
  if (value === undefined) return fallback;
  const count = /^[0-9]{1,9}$/.test(value) ? Number(value) : 0;
  if (count < 1 || count > max) refuse(`${name} must be a whole number from 1 to ${max}`);
  return count;
}

/** `key=value,key=value`, values percent-encoded, as W3C Baggage writes them. Values are never quoted in messages: most are keys. */
function pairsOf({ text, refuse }: TracingSource, variable: TracingVariable, keys: RegExp): [string, string][] {
  const { name, value = "" } = text(variable);
  return value.split(",").flatMap((part, i): [string, string][] => {
    if (part.trim() === "") return [];
    const at = part.indexOf("=");
    const key = part.slice(0, Math.max(0, at)).trim();
    const decoded = decodedOf(part.slice(at + 1).trim());
    if (keys.test(key) && decoded !== undefined) return [[key, decoded]];
    refuse(`${name}: entry ${i + 1} must be key=value; percent-encode characters that are not printable`);
    return [];
  });
}

function decodedOf(text: string): string | undefined {
  try {
    const decoded = decodeURIComponent(text);
    return /^[\x20-\x7e]*$/.test(decoded) ? decoded : undefined;
  } catch {
    return undefined;
  }
}
