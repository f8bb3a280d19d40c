import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { Fault } from "../../../base/fault.ts";
import { isObject } from "../../../core/dialect/json-fields.ts";
import type { ClientProfile } from "../../../core/mcp-endpoint/client-profile.ts";
import { ContentMistake } from "../../../core/mcp-endpoint/content.ts";
import { readAnswer } from "../../../core/mcp-endpoint/input/answers.ts";
import type { CallState } from "../../../core/mcp-endpoint/input/call-state.ts";
import { AnswerMistake } from "../../../core/mcp-endpoint/input/form-answer.ts";
import { FormMistake } from "../../../core/mcp-endpoint/input/form-schema.ts";
import { lackingCapabilities, readQuestions, type ScriptQuestion } from "../../../core/mcp-endpoint/input/questions.ts";
import { invalidParams, RpcFailure, rpcCodes } from "../../../core/mcp-endpoint/protocol.ts";
import { ToolFailure } from "../../../core/scripts/script.ts";
import { RunHalt, type ScriptClient } from "../../../core/scripts/script-client.ts";

/** The questions and answers of one attempt of a call. */
export interface InputDialog {
  /** Returns the client as a script asks it. Throws if the answers so far are about another connection. */
  clientFor(connection: string): ScriptClient;
  /** Throws `InputNeeded` if the script could not continue without its client. */
  requireAnswered(): void;
}

/** Why a run has ended before its end. */
export type InputEnding =
  | { readonly kind: "questions"; readonly requests: JsonObject; readonly state: CallState }
  | { readonly kind: "refusal"; readonly failure: RpcFailure };

export class InputNeeded extends Error {
  override readonly name = "InputNeeded";
  readonly ending: InputEnding;

  constructor(ending: InputEnding) {
    super("the client must answer first");
    this.ending = ending;
  }
}

const maxRounds = 10;

interface InputDialogOptions {
  readonly client: ClientProfile;
  readonly state: CallState;
  /** Answers of the client, by the names of questions. */
  readonly responses: JsonValue | undefined;
}

export function createInputDialog({ client, state, responses }: InputDialogOptions): InputDialog {
  const { abilities, era } = client;
  // A client may answer before it is asked, but only in the first attempt: later, a name may mean another question.
  const early = new Map(Object.entries(state.rounds === 0 && isObject(responses) ? responses : {}));
  const answers = new Map(Object.entries(state.answers));
  let ending: InputEnding | undefined;

  function answerTo({ name, digest }: ScriptQuestion): JsonValue | undefined {
    const known = answers.get(digest) ?? early.get(name);
    if (known === undefined) return undefined;
    early.delete(name);
    answers.set(digest, known);
    return known;
  }

  function endingFor(missing: readonly ScriptQuestion[], connection: string): InputEnding {
    const lacking = lackingCapabilities(missing, abilities);
    if (Object.keys(lacking).length > 0) return { kind: "refusal", failure: lackingFailure(lacking, era) };
    if (state.rounds >= maxRounds) {
      const message = `the action has asked its client ${maxRounds} times, and asks again`;
      return { kind: "refusal", failure: new RpcFailure(rpcCodes.internalError, message) };
    }
    return {
      kind: "questions",
      requests: Object.fromEntries(missing.map(({ name, method, params }) => [name, { method, params }])),
      state: {
        awaited: "",
        connection,
        rounds: state.rounds + 1,
        asked: Object.fromEntries(missing.map(({ name, digest }) => [name, digest])),
        answers: Object.fromEntries(answers),
      },
    };
  }

  function halt(reason: InputEnding): never {
    ending ??= reason;
    throw new RunHalt("the client must answer first; the action runs again with the answers");
  }

  return {
    clientFor(connection) {
      if (state.connection !== "" && state.connection !== connection) {
        throw new Fault("invalid_body", "the answers are about another connection: call again without `requestState`");
      }
      return {
        abilities,
        async ask(given) {
          const questions = questionsIn(given);
          const missing = questions.filter((one) => answerTo(one) === undefined);
          if (missing.length > 0) halt(endingFor(missing, connection));
          try {
            return Object.fromEntries(questions.map((one) => [one.name, readAnswer(one, answerTo(one) ?? null)]));
          } catch (error) {
            if (!(error instanceof AnswerMistake)) throw error;
            return halt({ kind: "refusal", failure: invalidParams(error.message) });
          }
        },
      };
    },
    requireAnswered() {
      if (ending !== undefined) throw new InputNeeded(ending);
    },
  };
}

function questionsIn(given: JsonObject): ScriptQuestion[] {
  try {
    return readQuestions(given);
  } catch (error) {
    if (!(error instanceof FormMistake || error instanceof ContentMistake)) throw error;
    throw new ToolFailure("invalid_request", error.message);
  }
}

function lackingFailure(lacking: JsonObject, era: ClientProfile["era"]): RpcFailure {
  const names = Object.keys(lacking).join(", ");
  const message = `the tool asks its client, which must declare the capabilities: ${names}`;
  const data = { requiredCapabilities: lacking };
  return era === "modern"
    ? new RpcFailure(rpcCodes.missingCapability, message, { status: 400, data })
    : new RpcFailure(rpcCodes.invalidRequest, `${message} in \`initialize\`, send its session, and accept events`, {
        data,
      });
}
