import type { JsonObject } from "@bufbuild/protobuf";
import { parseFrequency } from "../core/scripts/frequency.ts";
import {
  type ActionScript,
  type EventScript,
  lifecycleEvents,
  type Script,
  type ScriptEndpoint,
  type SyncScript,
} from "../core/scripts/script.ts";
import { actionMcp } from "./action-mcp.ts";
import type { ScriptFile } from "./folder.ts";

/** The parsed declarations of a file; or the mistakes, each with the word that is wrong. */
export type ManifestResult = { readonly script: Script } | { readonly mistakes: readonly ManifestMistake[] };

export interface ManifestMistake {
  readonly message: string;
  /** The word in the file, if it occurs there. */
  readonly word: string | undefined;
}

type ManifestFields = Readonly<Record<string, unknown>>;

const typeOf: Readonly<Record<string, Script["kind"]>> = { sync: "sync", action: "action", onEvent: "event" };
const creatorOf: Readonly<Record<Script["kind"], string>> = {
  sync: "createSync",
  action: "createAction",
  event: "createOnEvent",
};

/** Facts known before the file is read. */
interface ScriptRevision {
  readonly version: string;
  readonly changedMs: number;
}

export function readManifest(
  { integration, kind, name }: ScriptFile,
  declared: ManifestFields,
  known: ScriptRevision,
): ManifestResult {
  const mistakes: ManifestMistake[] = [];
  const addMistake = (message: string, word?: string): void => void mistakes.push({ message, word });

  const declaredKind = typeOf[String(declared["type"])];
  if (declared["type"] === "none")
    addMistake(`the file has no default export: use export default ${creatorOf[kind]}({ … })`);
  else if (declaredKind === undefined) addMistake(`the default export must be created by ${creatorOf[kind]}`);
  else if (declaredKind !== kind)
    addMistake(
      `created by ${creatorOf[declaredKind]}, but files in this folder must use ${creatorOf[kind]}`,
      creatorOf[declaredKind],
    );
  if (declaredKind !== undefined && declared["hasExec"] !== true) addMistake("exec must be a function", "exec");
  if (mistakes.length > 0) return { mistakes };

  const common = {
    integration,
    name,
    ...known,
    scopes: texts(declared["scopes"]),
    description: typeof declared["description"] === "string" ? declared["description"] : "",
    metadata: schema(declared["metadata"]),
  };
  const endpoints = endpointsOf(declared, addMistake);
  const script = ofKind();
  return mistakes.length > 0 ? { mistakes } : { script };

  function ofKind(): Script {
    if (kind === "sync") return sync();
    if (kind === "action") {
      const action: ActionScript = {
        ...common,
        kind,
        input: schema(declared["input"]),
        output: schema(declared["output"]),
        endpoints,
        mcp: actionMcp(declared["mcp"], (message) => addMistake(message, "mcp")),
      };
      return action;
    }
    const event = lifecycleEvents.find((one) => one === declared["event"]);
    if (event === undefined) addMistake(`event must be one of ${lifecycleEvents.join(", ")}`, "event");
    const script: EventScript = { ...common, kind, event: event ?? "post-connection-creation" };
    return script;
  }

  function sync(): SyncScript {
    const frequency = declared["frequency"];
    if (typeof frequency !== "string") addMistake("frequency must be set, for example `every hour`", "frequency");
    else {
      const read = parseFrequency(frequency);
      if (!read.ok) addMistake(`frequency "${frequency}" ${read.problem}`, "frequency");
    }
    const syncType = declared["syncType"] ?? "full";
    if (syncType !== "full" && syncType !== "incremental")
      addMistake('syncType must be "full" or "incremental"', "syncType");
    const models = declared["models"] as Readonly<Record<string, JsonObject>>;
    const subscriptions = declared["webhookSubscriptions"] ?? [];
    const areNames = Array.isArray(subscriptions) && subscriptions.every((one) => typeof one === "string");
    if (!areNames) addMistake("webhookSubscriptions must be a list of names", "webhookSubscriptions");
    else if (subscriptions.length > 0 && declared["hasOnWebhook"] !== true) {
      addMistake("webhookSubscriptions needs onWebhook, which is not defined", "webhookSubscriptions");
    }
    return {
      ...common,
      kind: "sync",
      frequency: String(frequency),
      syncType: syncType === "incremental" ? "incremental" : "full",
      autoStart: declared["autoStart"] !== false,
      trackDeletes: declared["trackDeletes"] === true,
      models,
      endpoints,
      webhookSubscriptions: areNames ? (subscriptions as readonly string[]) : [],
      hasOnWebhook: declared["hasOnWebhook"] === true,
      hasCheckpoint: declared["hasCheckpoint"] === true,
    };
  }
}

const texts = (value: unknown): readonly string[] =>
  Array.isArray(value) ? value.filter((one) => typeof one === "string") : [];

const schema = (value: unknown): JsonObject | undefined =>
  typeof value === "object" && value !== null ? (value as JsonObject) : undefined;

const methods = ["GET", "POST", "PUT", "PATCH", "DELETE"] as const;

function endpointsOf(
  declared: ManifestFields,
  addMistake: (message: string, word?: string) => void,
): readonly ScriptEndpoint[] {
  const word = declared["endpoints"] === undefined ? "endpoint" : "endpoints";
  const list = declared["endpoints"] ?? (declared["endpoint"] === undefined ? [] : [declared["endpoint"]]);
  if (!Array.isArray(list)) {
    addMistake("endpoints must be a list of { method, path }", word);
    return [];
  }
  return list.flatMap((one: unknown) => {
    const { method, path } = (typeof one === "object" && one !== null ? one : {}) as ManifestFields;
    const known = methods.find((name) => name === method);
    if (known === undefined) addMistake(`the method of an endpoint must be one of ${methods.join(", ")}`, word);
    const isPath = typeof path === "string" && /^\/[^\s?#]*$/.test(path);
    if (!isPath) addMistake("the path of an endpoint must begin with a slash, and have no query or spaces", word);
    return known !== undefined && isPath ? [{ method: known, path }] : [];
  });
}
