import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { Fault } from "../../base/fault.ts";
import type { AskingMessage } from "../../broker/traffic/send-to-provider.ts";
import type { ToolContent } from "../../core/mcp-endpoint/content.ts";
import type { ScriptLine, ScriptProgress } from "../../core/scripts/script.ts";
import type { ConnectionRef } from "../../gen/latchkey/v1/connection_pb.ts";
import type { EndpointCaller } from "./endpoint-caller.ts";
import type { InputDialog } from "./input/input-dialog.ts";
import type { Spend } from "./spend.ts";

/** A call of a tool. */
export interface CalledTool {
  readonly caller: EndpointCaller;
  readonly name: string;
  readonly given: JsonObject;
  /** Told of the connection once it is known, for logs. */
  readonly noteConnection: (named: WantedAccount) => void;
  /** ID of the approval that the client names; empty: none. */
  readonly approval: string;
  /** Through which the script of the call asks the client. */
  readonly dialog: InputDialog;
  readonly watch: CallWatch;
  /**
   * Resolves once the call may act, as `ToolGate.admit`. Every tool calls it before it acts, but for one whose request
   * is judged with `asking`.
   */
  readonly admit: (use: ToolUse) => Promise<void>;
  /** Returns the call as the reason of a request to a provider: judged and held with the request, not for itself. */
  readonly asking: (integration: string) => AskingMessage;
}

/** What a client wants to know of its call while it runs, and whether it still wants the answer. */
export interface CallWatch {
  /** Undefined: the client does not ask how far the call is. */
  readonly noteProgress: ((progress: ScriptProgress) => void) | undefined;
  /** Sends a line of a script's log; undefined: the client wants none. `logger`: the name of the tool. */
  readonly noteLine: ((line: ScriptLine, logger: string) => void) | undefined;
  /** Returns a signal that is aborted once the client wants no answer any more; undefined: leaving does not say so. */
  readonly ended: () => AbortSignal | undefined;
}

/** What a call is about to use. */
interface ToolUse {
  /** Key of the integration; undefined: none. */
  readonly integration?: string | undefined;
  /** A connection that exists; undefined: none. */
  readonly ref?: ConnectionRef;
  readonly spend?: Spend;
}

export interface WantedAccount {
  readonly integration: string;
  /** Empty: any connection of the integration; there is none yet. */
  readonly id: string;
}

/** What a tool answers with. */
export interface ToolResult {
  /** The output of a script, or what our own tool has found. */
  readonly value: JsonValue;
  /** How the value is shown; undefined: as text and as a value. */
  readonly content?: ToolContent;
  /** The provider, or the script, has refused: the model may try something else. */
  readonly isError?: boolean;
}

/** The user must connect an account, and then the call can succeed. */
export class AccountNeeded extends Error {
  override readonly name = "AccountNeeded";
  readonly fault: Fault;
  readonly connection: WantedAccount;

  constructor(fault: Fault, connection: WantedAccount) {
    super(fault.message, { cause: fault });
    this.fault = fault;
    this.connection = connection;
  }
}

/** Refuses an argument. */
export const argumentMistake = (name: string, what: string): Fault => {
  const message = `\`${name}\` ${what}`;
  return new Fault("invalid_body", `the arguments are not valid: ${message}`, {
    mistakes: [{ path: ["arguments", name], message: what }],
  });
};

/** Reads arguments by name, and refuses those that were not read. */
export class ToolArguments {
  readonly #given: JsonObject;
  readonly #read = new Set<string>();

  constructor(given: JsonObject) {
    this.#given = given;
  }

  value(name: string): JsonValue | undefined {
    this.#read.add(name);
    return this.#given[name];
  }

  /** Empty text is the same as none. */
  text(name: string): string | undefined {
    const value = this.value(name);
    if (value === undefined || value === "") return undefined;
    if (typeof value === "string") return value;
    throw argumentMistake(name, "must be text");
  }

  requiredText(name: string): string {
    const text = this.text(name);
    if (text === undefined) throw argumentMistake(name, "is required");
    return text;
  }

  integer(name: string, { max, fallback }: { readonly max: number; readonly fallback: number }): number {
    const value = this.value(name);
    if (value === undefined) return fallback;
    if (typeof value === "number" && Number.isInteger(value) && value >= 1 && value <= max) return value;
    throw argumentMistake(name, `must be a whole number from 1 to ${max}`);
  }

  object(name: string): JsonObject {
    const value = this.value(name) ?? {};
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return value;
    throw argumentMistake(name, "must be an object");
  }

  end(): void {
    const unknown = Object.keys(this.#given).find((name) => !this.#read.has(name));
    if (unknown !== undefined) throw argumentMistake(unknown.slice(0, 100), "is unknown");
  }
}
