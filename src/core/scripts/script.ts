import type { JsonObject, JsonValue } from "@bufbuild/protobuf";

/** A customer's script, as the folder has it: what runs is known to whoever hosts it, and this is what it says of itself. */
export type Script = SyncScript | ActionScript | EventScript;
export type ScriptKind = Script["kind"];

export interface ScriptAt {
  /** The integration's key; of every environment that has one of that name. */
  readonly integration: string;
  readonly kind: ScriptKind;
  readonly name: string;
}

interface ScriptManifestBase {
  readonly integration: string;
  readonly name: string;
  /** The hash of what runs. */
  readonly version: string;
  readonly description: string;
  /** When its file last changed. */
  readonly changedMs: number;
  /** For people. */
  readonly scopes: readonly string[];
  /** What the script is given is judged by these where it has said what it wants (JSON Schema). */
  readonly metadata: JsonObject | undefined;
}

export interface SyncScript extends ScriptManifestBase {
  readonly kind: "sync";
  /** As it is written. */
  readonly frequency: string;
  readonly syncType: "full" | "incremental";
  /** It runs without being asked, from the connection's making on. */
  readonly autoStart: boolean;
  /** What a whole full run does not bring is deleted. */
  readonly trackDeletes: boolean;
  /** By name, with JSON Schema. */
  readonly models: Readonly<Record<string, JsonObject>>;
  readonly endpoints: readonly ScriptEndpoint[];
  /** Empty: it hears of no notification. `*`: of all. */
  readonly webhookSubscriptions: readonly string[];
  readonly hasOnWebhook: boolean;
  /** It says what its checkpoint looks like. */
  readonly hasCheckpoint: boolean;
}

export interface ActionScript extends ScriptManifestBase {
  readonly kind: "action";
  readonly input: JsonObject | undefined;
  readonly output: JsonObject | undefined;
  readonly endpoints: readonly ScriptEndpoint[];
}

export interface EventScript extends ScriptManifestBase {
  readonly kind: "event";
  readonly event: LifecycleEvent;
}

/** What its author and we have called it and its parts: words that logs may show, whatever they look like. */
export const namesOf = (script: Script): readonly string[] => [
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

/** A file as it stands that is not used; the last good one of that name is, if there was one. */
export interface BrokenScript extends ScriptAt {
  /** Within the folder. */
  readonly file: string;
  readonly mistakes: readonly ScriptMistake[];
}

export interface ScriptMistake {
  readonly message: string;
  readonly file: string;
  /** From 1; undefined: of the file as a whole. */
  readonly line: number | undefined;
  readonly column: number | undefined;
}

/** The customer's scripts, and whoever runs them. */
export interface ScriptHost {
  /** Those that can run, in no particular order. */
  all(): readonly Script[];
  broken(): readonly BrokenScript[];
  find(at: ScriptAt): Script | undefined;
  /** The text of the file that it was made of; undefined: nobody has it any more. */
  sourceOf(script: Script): string | undefined;
  /** Called after each change of the folder that was taken up. Returns what takes it back. */
  onChange(listener: () => void): () => void;
  /** Never rejects: whatever goes wrong in a script, or with it, is its outcome. */
  run(script: Script, job: ScriptJob): Promise<ScriptOutcome>;
  close(): Promise<void>;
}

/** One execution, in a place of its own that has nothing but this. */
export interface ScriptJob {
  readonly entry: "exec" | "onWebhook";
  /** What the script is given beside its tools: an action's input, a notification's payload. */
  readonly input: JsonValue | undefined;
  /** What it can read of itself without asking. */
  readonly facts: ScriptFacts;
  readonly tools: ScriptTools;
  /** Waiting for its turn counts as well. */
  readonly limits: ScriptLimits;
  readonly signal: AbortSignal;
  /** With whom it waits for its turn: what somebody waits for waits for none of what is due, nor for who asked for it. */
  readonly row: "due" | "asked" | "hook" | "nested";
}

export interface ScriptFacts {
  readonly environment: string;
  readonly integration: string;
  readonly connectionId: string;
  readonly provider: string;
  readonly variant: string;
  /** When the last run that succeeded began, in ISO 8601; undefined: there is none, or everything is fetched anew. */
  readonly lastSyncDate: string | undefined;
  readonly runId: string;
}

/** What the script's own side asks of ours: the name of the tool, and what it was given, as JSON. */
export interface ScriptTools {
  /** May reject with a `ToolFailure`, which the script can catch; anything else ends the run as a failure of ours. */
  call(tool: string, given: readonly JsonValue[]): Promise<JsonValue | undefined>;
  log(line: ScriptLine): void;
}

export interface ScriptLine {
  readonly level: "debug" | "info" | "warn" | "error";
  readonly message: string;
}

export class ToolFailure extends Error {
  override readonly name = "ToolFailure";
  readonly code: string;
  /** Set on the error that the script catches, such as `response` of a provider's refusal. */
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
  /** From its beginning to its end, waiting for others included. */
  readonly deadlineMs: number;
  /** Without an answer to wait for. */
  readonly busyMs: number;
  readonly memoryBytes: number;
  readonly toolCalls: number;
  /** Under way at once; more wait. */
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
   * `script_error`: it threw. `action_error`: it threw an ActionError, whose payload is given. `deadline`, `busy`,
   * `memory`, `tool_calls`, `output_too_large`: it went beyond a limit. `cancelled`: the signal. `invalid_input`,
   * `invalid_output`: not what its schema says. `host_error`: a failure of ours.
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
    | "host_error";
  readonly message: string;
  /** Lines of the customer's own files, innermost first: `syncs/events.ts:12:5`. */
  readonly stack: readonly string[];
  /** Of an ActionError what it was given; of a provider's refusal its body; of a schema what is wrong. */
  readonly payload?: JsonValue;
  /** The request to the provider that the script did not catch the failure of. */
  readonly upstream?: UpstreamFailure;
}

export interface UpstreamFailure {
  /** Undefined: the provider did not answer. */
  readonly response?: UpstreamResponse;
}

export interface UpstreamResponse {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  /** At most 16 KiB of JSON; what is longer is cut, as text. */
  readonly body: JsonValue;
}

/** As each run has them unless it is said. */
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

/** Where nobody has said where scripts are. */
export const noScripts: ScriptHost = {
  all: () => [],
  broken: () => [],
  find: () => undefined,
  sourceOf: () => undefined,
  onChange: () => () => {},
  run: () =>
    Promise.resolve({ kind: "failed", failure: { code: "host_error", message: "there are no scripts", stack: [] } }),
  close: () => Promise.resolve(),
};
