import type { JsonObject } from "@bufbuild/protobuf";

/** What a client of a run can answer. */
export interface ClientAbilities {
  /** Shows forms to its user. */
  readonly forms: boolean;
  /** Lets a model write a message. */
  readonly sampling: boolean;
  /** Names the folders that its user works in. */
  readonly roots: boolean;
}

/** A client that waits for a run, and answers questions of the script. */
export interface ScriptClient {
  readonly abilities: ClientAbilities;
  /** Returns answers by the names of the questions. Rejects with `ToolFailure`, or with `RunHalt`. */
  ask(questions: JsonObject): Promise<JsonObject>;
}

/** Ends a run that cannot continue: its client must answer first, and calls again. The script cannot catch it. */
export class RunHalt extends Error {
  override readonly name = "RunHalt";
}
