import type { JsonValue } from "@bufbuild/protobuf";
import type { ScriptFailure, ScriptLimits, ScriptLine, UpstreamFailure } from "../core/scripts/script.ts";

/** Messages to a thread. Only text and numbers cross. */
export type ToThread =
  /** The prelude and the files are sent to each thread once; runs refer to them. */
  | {
      readonly kind: "load";
      readonly version: string;
      readonly code: string;
      /** Version of the base that must be loaded first. */
      readonly base: string | undefined;
    }
  | { readonly kind: "forget"; readonly version: string }
  | { readonly kind: "describe"; readonly run: number; readonly version: string }
  | {
      readonly kind: "run";
      readonly run: number;
      readonly version: string;
      /** Entry, input and facts, in the sandbox's format. */
      readonly start: string;
      readonly limits: ScriptLimits;
    }
  /** `text` is a complete response in the sandbox's format. */
  | { readonly kind: "answer"; readonly run: number; readonly call: string; readonly text: string }
  | { readonly kind: "drop"; readonly run: number };

export type FromThread =
  | { readonly kind: "ready" }
  | { readonly kind: "described"; readonly run: number; readonly text: string }
  | { readonly kind: "calls"; readonly run: number; readonly calls: readonly ToolCall[] }
  | { readonly kind: "lines"; readonly run: number; readonly lines: readonly ScriptLine[] }
  | { readonly kind: "done"; readonly run: number; readonly text: string }
  | { readonly kind: "failed"; readonly run: number; readonly failure: RawFailure };

export interface ToolCall {
  readonly id: string;
  readonly tool: string;
  /** The arguments, as a JSON array. */
  readonly text: string;
}

/** A failure whose stack still refers to the bundle. */
export interface RawFailure {
  readonly code: ScriptFailure["code"];
  readonly message: string;
  readonly stack: string;
  readonly payload?: JsonValue;
  readonly upstream?: UpstreamFailure;
}

export interface ThreadData {
  readonly prelude: string;
  /** Memory limit while a file is loaded: that of a run. */
  readonly memoryBytes: number;
  /** Limit of the CPU time of each step of loading a file. */
  readonly loadingMs: number;
  /** The active run and its start time, for a thread that hangs and cannot report them. Two 64-bit numbers. */
  readonly watch: SharedArrayBuffer;
}
