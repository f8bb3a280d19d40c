import { createHash } from "node:crypto";
import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import type { Script } from "./script.ts";

/** Scripts in the SDK's types `StandardNangoConfig`, `OpenAIFunction` and `ListedNangoFunction`. */

interface ConfigOptions {
  /** The version of the runtime. */
  readonly sdkVersion: string;
  /** Returns the provider of an integration, if the integration exists. */
  readonly providerOf: (integration: string) => string | undefined;
}

export function standardConfig(scripts: readonly Script[], { sdkVersion, providerOf }: ConfigOptions): JsonObject[] {
  return [...Map.groupBy(scripts, ({ integration }) => integration)].map(([providerConfigKey, all]) => {
    const provider = providerOf(providerConfigKey);
    const of = (kind: Script["kind"]) =>
      all.filter((script) => script.kind === kind).map((script) => scriptConfig(script, sdkVersion));
    return {
      providerConfigKey,
      ...(provider !== undefined && { provider }),
      syncs: of("sync"),
      actions: of("action"),
      "on-events": of("event"),
    };
  });
}

function scriptConfig(script: Script, sdkVersion: string): JsonObject {
  const { name, version, description } = script;
  const scopes = [...script.scopes];
  const common: JsonObject = {
    name,
    version,
    description,
    type: typeOf(script),
    scopes,
    ...availability(script),
    metadata: { description, scopes },
    attributes: {},
    sdk_version: sdkVersion,
    features: script.kind === "sync" && script.hasCheckpoint ? ["checkpoints"] : [],
    ...modelsOf(script),
  };
  if (script.kind === "event") return { ...common, event: script.event, endpoints: [] };
  const endpoints = script.endpoints.map(({ method, path }) => ({ method, path }));
  if (script.kind === "action") return { ...common, endpoints };
  return {
    ...common,
    endpoints,
    runs: script.frequency,
    sync_type: script.syncType,
    auto_start: script.autoStart,
    track_deletes: script.trackDeletes,
    webhookSubscriptions: [...script.webhookSubscriptions],
    models: Object.entries(script.models).map(([model, schema]) => ({ name: model, fields: fieldsOf(schema) })),
  };
}

/** Returns a script as `listFunctions` shows it. */
export function functionJson(script: Script): JsonObject {
  const { name, description } = script;
  const scopes = [...script.scopes];
  const common: JsonObject = { name, type: typeOf(script), description, scopes, ...availability(script) };
  if (script.kind === "event") return { ...common, event: script.event };
  if (script.kind === "action") return { ...common, ...modelsOf(script) };
  return {
    ...common,
    ...modelsOf(script),
    runs: script.frequency,
    auto_start: script.autoStart,
    track_deletes: script.trackDeletes,
  };
}

/** Returns the SDK's name for a kind of script. */
export const typeOf = ({ kind }: Pick<Script, "kind">): "sync" | "action" | "on-event" =>
  kind === "event" ? "on-event" : kind;

/** A script file in the folder always runs, and cannot be disabled through the API. */
const availability = (script: Script) => ({
  id: numberOf(script),
  enabled: true,
  last_deployed: new Date(script.changedMs).toISOString(),
  source: "repo",
});

/** Derived from the name alone: the same on every replica and after every start. */
const numberOf = ({ integration, kind, name }: Script): number =>
  createHash("sha256").update(`${integration}/${kind}/${name}`).digest().readUIntBE(0, 4);

/** Returns names of models, with a schema for each. */
function modelsOf(script: Script): { input?: string; returns: string[]; json_schema: JsonValue } {
  const named = (prefix: string) => `${prefix}_${script.integration}_${script.name}`;
  const input = script.kind === "action" ? script.input : script.metadata;
  const inputName = named(script.kind === "action" ? "ActionInput" : "SyncMetadata");
  const outputs = outputsOf(script, named("ActionOutput"));
  const definitions = { ...(input && { [inputName]: input }), ...outputs };
  return {
    ...(input && { input: inputName }),
    returns: Object.keys(outputs),
    json_schema: Object.keys(definitions).length === 0 ? null : { definitions },
  };
}

function outputsOf(script: Script, outputName: string): Readonly<Record<string, JsonObject>> {
  if (script.kind === "sync") return script.models;
  return script.kind === "action" && script.output !== undefined ? { [outputName]: script.output } : {};
}

const fieldsOf = (schema: JsonObject): JsonValue =>
  Object.entries(objectIn(schema["properties"])).map(([name, one]) => ({ name, type: typeName(one) }));

/** Returns actions in the format of OpenAI's function calling. */
export const openAIFunctions = (scripts: readonly Script[]): JsonObject[] =>
  scripts
    .filter((script) => script.kind === "action")
    .map(({ name, description, input }) => ({ name, description, parameters: parametersOf(input) }));

function parametersOf(input: JsonObject | undefined): JsonObject {
  const properties = Object.entries(objectIn(input?.["properties"])).map(([name, one]) => {
    const schema = objectIn(one);
    return [name, { ...schema, type: typeName(one), description: schema["description"] ?? "" }] as const;
  });
  const required = input?.["required"];
  return {
    type: "object",
    properties: Object.fromEntries(properties),
    required: Array.isArray(required) ? required : [],
  };
}

const objectIn = (value: JsonValue | undefined): JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value) ? value : {};

/** Returns the first type that a schema names; for several (`anyOf`), the first that is not null. */
function typeName(schema: JsonValue): string {
  const { type, anyOf, oneOf, enum: values, const: only } = objectIn(schema);
  if (typeof type === "string") return type;
  if (Array.isArray(type)) return String(type.find((one) => one !== "null") ?? "null");
  const several = Array.isArray(anyOf) ? anyOf : Array.isArray(oneOf) ? oneOf : [];
  const first = several.map(typeName).find((one) => one !== "null");
  if (first !== undefined) return first;
  const [value = only] = Array.isArray(values) ? values : [];
  return value === undefined || value === null ? "object" : typeof value;
}
