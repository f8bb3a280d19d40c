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
const makerOf: Readonly<Record<Script["kind"], string>> = {
  sync: "createSync",
  action: "createAction",
  event: "createOnEvent",
};

/** Facts known before the file is read. */
interface Known {
  readonly version: string;
  readonly changedMs: number;
}

export function readManifest(
  { integration, kind, name }: ScriptFile,
  said: ManifestFields,
  known: Known,
): ManifestResult {
  const mistakes: ManifestMistake[] = [];
  const wrong = (message: string, word?: string): void => void mistakes.push({ message, word });

  const made = typeOf[String(said["type"])];
  if (said["type"] === "none") wrong(`the file has no default export: use export default ${makerOf[kind]}({ … })`);
  else if (made === undefined) wrong(`the default export must be created by ${makerOf[kind]}`);
  else if (made !== kind)
    wrong(`created by ${makerOf[made]}, but files in this folder must use ${makerOf[kind]}`, makerOf[made]);
  if (made !== undefined && said["hasExec"] !== true) wrong("exec must be a function", "exec");
  if (mistakes.length > 0) return { mistakes };

  const common = {
    integration,
    name,
    ...known,
    scopes: texts(said["scopes"]),
    description: typeof said["description"] === "string" ? said["description"] : "",
    metadata: schema(said["metadata"]),
  };
  const endpoints = endpointsOf(said, wrong);
  const script = ofKind();
  return mistakes.length > 0 ? { mistakes } : { script };

  function ofKind(): Script {
    if (kind === "sync") return sync();
    if (kind === "action") {
      const action: ActionScript = {
        ...common,
        kind,
        input: schema(said["input"]),
        output: schema(said["output"]),
        endpoints,
      };
      return action;
    }
    const event = lifecycleEvents.find((one) => one === said["event"]);
    if (event === undefined) wrong(`event must be one of ${lifecycleEvents.join(", ")}`, "event");
    const script: EventScript = { ...common, kind, event: event ?? "post-connection-creation" };
    return script;
  }

  function sync(): SyncScript {
    const frequency = said["frequency"];
    if (typeof frequency !== "string") wrong("frequency must be set, for example `every hour`", "frequency");
    else {
      const read = parseFrequency(frequency);
      if (!read.ok) wrong(`frequency "${frequency}" ${read.problem}`, "frequency");
    }
    const syncType = said["syncType"] ?? "full";
    if (syncType !== "full" && syncType !== "incremental")
      wrong('syncType must be "full" or "incremental"', "syncType");
    const models = said["models"] as Readonly<Record<string, JsonObject>>;
    const subscriptions = said["webhookSubscriptions"] ?? [];
    const areNames = Array.isArray(subscriptions) && subscriptions.every((one) => typeof one === "string");
    if (!areNames) wrong("webhookSubscriptions must be a list of names", "webhookSubscriptions");
    else if (subscriptions.length > 0 && said["hasOnWebhook"] !== true) {
      wrong("webhookSubscriptions needs onWebhook, which is not defined", "webhookSubscriptions");
    }
    return {
      ...common,
      kind: "sync",
      frequency: String(frequency),
      syncType: syncType === "incremental" ? "incremental" : "full",
      autoStart: said["autoStart"] !== false,
      trackDeletes: said["trackDeletes"] === true,
      models,
      endpoints,
      webhookSubscriptions: areNames ? (subscriptions as readonly string[]) : [],
      hasOnWebhook: said["hasOnWebhook"] === true,
      hasCheckpoint: said["hasCheckpoint"] === true,
    };
  }
}

const texts = (value: unknown): readonly string[] =>
  Array.isArray(value) ? value.filter((one) => typeof one === "string") : [];

const schema = (value: unknown): JsonObject | undefined =>
  typeof value === "object" && value !== null ? (value as JsonObject) : undefined;

const methods = ["GET", "POST", "PUT", "PATCH", "DELETE"] as const;

function endpointsOf(said: ManifestFields, wrong: (message: string, word?: string) => void): readonly ScriptEndpoint[] {
  const word = said["endpoints"] === undefined ? "endpoint" : "endpoints";
  const list = said["endpoints"] ?? (said["endpoint"] === undefined ? [] : [said["endpoint"]]);
  if (!Array.isArray(list)) {
    wrong("endpoints must be a list of { method, path }", word);
    return [];
  }
  return list.flatMap((one: unknown) => {
    const { method, path } = (typeof one === "object" && one !== null ? one : {}) as ManifestFields;
    const known = methods.find((name) => name === method);
    if (known === undefined) wrong(`the method of an endpoint must be one of ${methods.join(", ")}`, word);
    const isPath = typeof path === "string" && /^\/[^\s?#]*$/.test(path);
    if (!isPath) wrong("the path of an endpoint must begin with a slash, and have no query or spaces", word);
    return known !== undefined && isPath ? [{ method: known, path }] : [];
  });
}
