import type { JsonObject, JsonValue } from "@bufbuild/protobuf";

/** A customer's script as the folder declares it. The host keeps the code; this is its description. */
export type Script = SyncScript | ActionScript | EventScript;
export type ScriptKind = Script["kind"];

export interface ScriptLocation {
  /** The integration's key; applies to every environment with an integration of that name. */
  readonly integration: string;
  readonly kind: ScriptKind;
  readonly name: string;
}

interface ScriptManifestBase {
  readonly integration: string;
  readonly name: string;
  /** Hash of the code. */
  readonly version: string;
  readonly description: string;
  /** Time of the file's last change. */
  readonly changedMs: number;
  /** Shown to people only; Latchkey does not enforce scopes. */
  readonly scopes: readonly string[];
  /** JSON Schema that validates the metadata given to the script, if declared. */
  readonly metadata: JsonObject | undefined;
}

export interface SyncScript extends ScriptManifestBase {
  readonly kind: "sync";
  /** As written in the file. */
  readonly frequency: string;
  readonly syncType: "full" | "incremental";
  /** Runs on schedule from the creation of the connection, without being started. */
  readonly autoStart: boolean;
  /** Records that a complete full run does not return are deleted. */
  readonly trackDeletes: boolean;
  /** JSON Schemas by model name. */
  readonly models: Readonly<Record<string, JsonObject>>;
  readonly endpoints: readonly ScriptEndpoint[];
  /** Empty: no notifications. `*`: all of them. */
  readonly webhookSubscriptions: readonly string[];
  readonly hasOnWebhook: boolean;
  /** The script declares a schema for its checkpoint. */
  readonly hasCheckpoint: boolean;
}

export interface ActionScript extends ScriptManifestBase {
  readonly kind: "action";
  readonly input: JsonObject | undefined;
  readonly output: JsonObject | undefined;
  readonly endpoints: readonly ScriptEndpoint[];
  readonly mcp: ActionMcp;
}

/** How clients of the MCP endpoint see an action. */
export type ActionMcp =
  | { readonly kind: "tool"; readonly answers: "output" | "content" }
  | { readonly kind: "prompt" }
  /** Parts of the URI in braces are fields of the input. */
  | {
      readonly kind: "resource";
      readonly uri: string;
      readonly mimeType: string;
      /** The resource has changed when saved records of this model have; empty: clients cannot follow it. */
      readonly follows: string;
    };

export interface EventScript extends ScriptManifestBase {
  readonly kind: "event";
  readonly event: LifecycleEvent;
}

/**
 * Returns the names that the author and Latchkey gave to the script and its parts; logs may show them, even if they
 * look like secrets.
 */
export const scriptNames = (script: Script): readonly string[] => [
  ...[script.name, script.version],
  ...(script.kind === "sync" ? Object.keys(script.models) : []),
];

export const lifecycleEvents = ["post-connection-creation", "pre-connection-deletion", "validate-connection"] as const;
export type LifecycleEvent = (typeof lifecycleEvents)[number];

export interface ScriptEndpoint {
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** Begins with a slash. */
  readonly path: string;
}

/** A file whose current version is invalid; the last valid version of that name is used, if there was one. */
export interface BrokenScript extends ScriptLocation {
  /** Path within the folder. */
  readonly file: string;
  readonly mistakes: readonly ScriptMistake[];
}

export interface ScriptMistake {
  readonly message: string;
  readonly file: string;
  /** Counts from 1; undefined: the file as a whole. */
  readonly line: number | undefined;
  readonly column: number | undefined;
}

/** Holds and runs the customer's scripts. */
export interface ScriptHost {
  /** Scripts that can run, in no particular order. */
  all(): readonly Script[];
  broken(): readonly BrokenScript[];
  find(at: ScriptLocation): Script | undefined;
  /** The source text of the script; undefined if no longer available. */
  sourceOf(script: Script): string | undefined;
  /** Called after each change of the folder was loaded. Returns a function that removes the listener. */
  onChange(listener: () => void): () => void;
  /** Never rejects: any error in the script, or in running it, is part of the outcome. */
  run(script: Script, job: ScriptJob): Promise<ScriptOutcome>;
  close(): Promise<void>;
}

/** An execution, in an isolated environment that gets nothing else. */
export interface ScriptJob {
  readonly entry: "exec" | "onWebhook";
  /** Input besides the tools: an action's input, or a notification's payload. */
  readonly input: JsonValue | undefined;
  /** Facts about the run that the script reads without a tool call. */
  readonly facts: ScriptFacts;
  readonly tools: ScriptTools;
  /** Time in the queue counts as well. */
  readonly limits: ScriptLimits;
  readonly signal: AbortSignal;
  /**
   * The queue in which the run waits. Runs that a caller waits for do not queue behind due runs, and nested runs do not
   * queue behind their parents.
   */
  readonly row: "due" | "asked" | "hook" | "nested";
}

export interface ScriptFacts {
  readonly environment: string;
  readonly integration: string;
  readonly connectionId: string;
  readonly provider: string;
  readonly variant: string;
  /** Start of the last successful run, in ISO 8601; undefined if there is none, or if everything is fetched again. */
  readonly lastSyncDate: string | undefined;
  readonly runId: string;
}

/** Calls from the script to its host: the name of the tool, and its arguments as JSON. */
export interface ScriptTools {
  /**
   * May reject with a `ToolFailure`, which the script can catch; any other error ends the run as an internal failure.
   */
  call(tool: string, given: readonly JsonValue[]): Promise<JsonValue | undefined>;
  log(line: ScriptLine): void;
}

/** How far a run is, for a client that waits for it. */
export interface ScriptProgress {
  readonly progress: number;
  readonly total: number | undefined;
  readonly message: string | undefined;
}

export interface ScriptLine {
  readonly level: "debug" | "info" | "warn" | "error";
  readonly message: string;
}

export class ToolFailure extends Error {
  override readonly name = "ToolFailure";
  readonly code: string;
  /** Set on the error that the script catches, such as `response` for an error response of the provider. */
  readonly details: JsonObject;

  constructor(
    code: string,
    message: string,
    { details = {}, ...options }: ErrorOptions & { details?: JsonObject } = {},
  ) {
    super(message, options);
    this.code = code;
    this.details = details;
  }
}

export interface ScriptLimits {
  /** Time from start to end, including waits. */
  readonly deadlineMs: number;
  /** CPU time that a script may use without waiting for anything. */
  readonly busyMs: number;
  readonly memoryBytes: number;
  readonly toolCalls: number;
  /** Maximum concurrent calls; further calls wait. */
  readonly toolCallsAtOnce: number;
  readonly outputBytes: number;
  readonly logLines: number;
  readonly logLineBytes: number;
}

export type ScriptOutcome =
  | { readonly kind: "done"; readonly output: JsonValue | undefined }
  | { readonly kind: "failed"; readonly failure: ScriptFailure };

export interface ScriptFailure {
  /**
   * `script_error`: the script threw. `action_error`: it threw an ActionError, with its payload. `deadline`, `busy`,
   * `memory`, `tool_calls`, `output_too_large`: it exceeded a limit. `cancelled`: aborted by the signal.
   * `input_required`: its client must answer first, and calls again.
   * `invalid_input`, `invalid_output`: rejected by the schema. `host_error`: an internal failure.
   */
  readonly code:
    | "script_error"
    | "action_error"
    | "deadline"
    | "busy"
    | "memory"
    | "tool_calls"
    | "output_too_large"
    | "cancelled"
    | "invalid_input"
    | "invalid_output"
    | "input_required"
    | "host_error";
  readonly message: string;
  /** Lines of the customer's own files, innermost first: `syncs/events.ts:12:5`. */
  readonly stack: readonly string[];
  /** Payload of an ActionError, body of an error response of the provider, or mistakes found by a schema. */
  readonly payload?: JsonValue;
  /** The failed provider request that the script did not catch. */
  readonly upstream?: UpstreamFailure;
}

export interface UpstreamFailure {
  /** Undefined: the provider did not respond. */
  readonly response?: UpstreamResponse;
}

export interface UpstreamResponse {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  /** At most 16 KiB of JSON; a longer body is cut, and given as text. */
  readonly body: JsonValue;
}

/** Default limits of each run. */
export const usualScriptLimits: ScriptLimits = {
  deadlineMs: 15 * 60_000,
  busyMs: 10_000,
  memoryBytes: 64 * 1024 * 1024,
  toolCalls: 100_000,
  toolCallsAtOnce: 32,
  outputBytes: 2 * 1024 * 1024,
  logLines: 1_000,
  logLineBytes: 8 * 1024,
};

/** The host when no scripts folder is configured. */
export const noScripts: ScriptHost = {
  all: () => [],
  broken: () => [],
  find: () => undefined,
  sourceOf: () => undefined,
  onChange: () => () => {},
  run: () =>
    Promise.resolve({
      kind: "failed",
      failure: { code: "host_error", message: "no scripts are configured", stack: [] },
    }),
  close: () => Promise.resolve(),
};
