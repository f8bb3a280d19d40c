import type { JsonValue } from "@bufbuild/protobuf";
import type { ScriptFailure, ScriptLimits, ScriptLine, UpstreamFailure } from "../core/scripts/script.ts";

/** What a thread is told. Everything that crosses is text or a number. */
export type ToThread =
  /** The prelude and the files are sent once a thread; runs name them. */
  | {
      readonly kind: "load";
      readonly version: string;
      readonly code: string;
      /** The version of what has to have been read before. */
      readonly base: string | undefined;
    }
  | { readonly kind: "forget"; readonly version: string }
  | { readonly kind: "describe"; readonly run: number; readonly version: string }
  | {
      readonly kind: "run";
      readonly run: number;
      readonly version: string;
      /** Entry, input and facts, as the inside reads them. */
      readonly start: string;
      readonly limits: ScriptLimits;
    }
  /** `text` is a whole answer, as the inside reads it. */
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
  /** The arguments, a list in JSON. */
  readonly text: string;
}

/** A failure whose stack is still of the bundle. */
export interface RawFailure {
  readonly code: ScriptFailure["code"];
  readonly message: string;
  readonly stack: string;
  readonly payload?: JsonValue;
  readonly upstream?: UpstreamFailure;
}

export interface ThreadData {
  readonly prelude: string;
  /** What a machine may have while a file is read: as much as a run of it. */
  readonly memoryBytes: number;
  /** Which run is inside, and since when: a thread that hangs cannot say it any more. Two 64-bit numbers. */
  readonly watch: SharedArrayBuffer;
}
