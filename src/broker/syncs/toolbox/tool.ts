import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import type { ScriptLine, ScriptProgress } from "../../../core/scripts/script.ts";
import type { ScriptClient } from "../../../core/scripts/script-client.ts";
import type { ConnectionRef } from "../../../gen/latchkey/v1/connection_pb.ts";
import type { LogWriter } from "../../audit/logs.ts";
import type { NoteSent } from "../../credentials/connection-request.ts";
import type { LiveConnection } from "../../credentials/live-connections.ts";
import type { RunLocks } from "./script-locks.ts";

/** A function that scripts may call; its arguments come from the script, unchecked. */
export type Tool = (
  run: ToolsRun & { readonly locks: RunLocks },
  args: readonly JsonValue[],
) => Promise<JsonValue | undefined>;

/** Tools by the names that scripts call. */
export type NamedTools = Readonly<Record<string, Tool>>;

/** The properties of a run that its tools need. */
export interface ToolsRun {
  /** Name of the script. */
  readonly script: string;
  readonly ref: ConnectionRef;
  /** Returns the connection to use; a draft for a connection that is about to be created. */
  readonly live: () => Promise<LiveConnection>;
  /** Called with the credentials of each request. */
  readonly noteSent?: NoteSent | undefined;
  readonly log: LogWriter;
  readonly signal: AbortSignal;
  /** Tools of a sync's run; undefined for other scripts, which keep no records and have no checkpoint. */
  readonly sync: SyncTools | undefined;
  /** Logs changes instead of making them. */
  readonly isDryRun: boolean;
  /** The connection is about to be created. */
  readonly isDraft?: boolean;
  /** Another script waits for this run. */
  readonly isNested?: boolean;
  /** Called when the script says how far it is; undefined: no caller asks. */
  readonly noteProgress?: ((progress: ScriptProgress) => void) | undefined;
  /** Called with each line that the script logs; undefined: no caller asks. */
  readonly noteLine?: ((line: ScriptLine) => void) | undefined;
  /** Answers questions of the script; undefined: no client can. */
  readonly client?: ScriptClient | undefined;
}

/** Additional tools for a sync's run. Each rejects once another process has ended the run. */
export interface SyncTools {
  save(model: string, records: readonly JsonObject[]): Promise<void>;
  update(model: string, records: readonly JsonObject[]): Promise<void>;
  delete(model: string, records: readonly JsonObject[]): Promise<void>;
  byIds(model: string, ids: readonly string[]): Promise<JsonObject[]>;
  trackDeletes(model: string, step: "start" | "end"): Promise<void>;
  checkpoint(): Promise<JsonObject | undefined>;
  setCheckpoint(checkpoint: JsonObject | undefined): Promise<void>;
}

/** The actor in the audit trail of what scripts change. */
export const scriptActor = "script";
