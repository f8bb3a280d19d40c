import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { randomId } from "../../../base/ids.ts";
import type { Broker } from "../../../broker/broker.ts";
import { starterOf } from "../../../broker/setup/caller.ts";
import { isObject } from "../../../core/dialect/json-fields.ts";
import type { ClientProfile } from "../../../core/mcp-endpoint/client-profile.ts";
import { type ClientReply, RpcFailure, rpcCodes } from "../../../core/mcp-endpoint/protocol.ts";
import { type EndpointCaller, endpointCallerNow } from "../endpoint-caller.ts";
import { createCallerSlots } from "../streams/caller-slots.ts";

/**
 * Questions to clients of 2025-11-25: requests on the stream of their call. Each answer comes as a request of its own,
 * to any process.
 */
export interface ClientQuestions {
  /** Returns the answers by the names of the questions. Rejects if one is missing in the end. */
  ask(asked: AskedClient, requests: JsonObject): Promise<JsonObject>;
  /** Takes an answer. Rejects with `RpcFailure` for one to nothing that this session was asked. */
  take(response: ClientReply, from: AskedSession): Promise<void>;
}

interface AskedSession {
  readonly caller: EndpointCaller;
  readonly client: ClientProfile;
}

export interface AskedClient extends AskedSession {
  /** Sends a message on the stream of the call. */
  send(message: JsonObject): void;
}

type QuestionServices = Pick<Broker, "access" | "clientAnswers" | "sealedTexts">;

const maxMinutes = 10;
/** An ended key, a client that has left and the end of the time are noticed that soon. */
const beatMs = 500;
const maxAnswerBytes = 256 * 1024;
const slots = { most: 1_000, mostOfCaller: 100, of: "calls that wait for their clients" };

interface AwaitedQuestion {
  readonly name: string;
  readonly id: string;
  readonly answer: Promise<string>;
  readonly close: () => void;
  isAnswered: boolean;
}

export function createClientQuestions(broker: QuestionServices, now: () => number): ClientQuestions {
  const { access, clientAnswers, sealedTexts } = broker;
  const enter = createCallerSlots(slots);

  async function open(name: string, purpose: string, untilMs: number): Promise<AwaitedQuestion> {
    // The ID says which session may answer until when, so that nothing is stored for a question.
    const id = sealedTexts.seal(purpose, `${untilMs} ${randomId()}`);
    const { answer, close } = await clientAnswers.expect(id);
    return { name, id, answer, close, isAnswered: false };
  }

  /** Resolves with all answers. Rejects once they are not awaited any more. */
  function answersTo(
    questions: readonly AwaitedQuestion[],
    caller: EndpointCaller,
    untilMs: number,
  ): Promise<JsonObject> {
    const leaving = caller.leaving();
    const answered = questions.map(async (one) => {
      const result = resultIn(JSON.parse(await one.answer), one.name);
      one.isAnswered = true;
      return [one.name, result] as const;
    });
    const { promise, resolve, reject } = Promise.withResolvers<JsonObject>();
    Promise.all(answered).then((found) => resolve(Object.fromEntries(found)), reject);

    function look(): void {
      if (leaving.aborted) throw failure("the client has left before it has answered");
      if (now() >= untilMs) throw failure(`the client has not answered within ${maxMinutes} minutes`);
      endpointCallerNow(access, caller);
    }

    const beat = setInterval(() => {
      try {
        look();
      } catch (error) {
        reject(error);
      }
    }, beatMs);
    return promise.finally(() => clearInterval(beat));
  }

  return {
    async ask({ caller, client, send }, requests) {
      const leave = enter(caller);
      const untilMs = now() + maxMinutes * 60_000;
      const purpose = purposeOf({ caller, client });
      const questions: AwaitedQuestion[] = [];
      try {
        for (const name of Object.keys(requests)) questions.push(await open(name, purpose, untilMs));
        for (const { name, id } of questions) send({ jsonrpc: "2.0", id, ...(requests[name] as JsonObject) });
        return await answersTo(questions, caller, untilMs);
      } catch (error) {
        const reason = "the call has ended";
        for (const { id, isAnswered } of questions) {
          if (isAnswered) continue;
          send({ jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId: id, reason } });
        }
        throw error;
      } finally {
        for (const { close } of questions) close();
        leave();
      }
    },
    async take({ id, result, error }, from) {
      const sealed = typeof id === "string" ? await sealedTexts.open(purposeOf(from), id) : undefined;
      if (typeof id !== "string" || sealed === undefined) {
        throw failure("the answer is to no question that this session was asked with this key", 400);
      }
      // What comes too late has no effect.
      if (now() >= Number(sealed.split(" ", 1)[0])) return;
      const text = JSON.stringify(result === undefined ? { error: errorCode(error) } : { result });
      if (Buffer.byteLength(text) <= maxAnswerBytes) return clientAnswers.pass(id, text);
      await clientAnswers.pass(id, JSON.stringify({ tooLarge: true }));
      throw failure(tooLarge, 400);
    },
  };
}

const tooLarge = `an answer must have at most ${maxAnswerBytes / 1024} KiB`;

const failure = (message: string, status = 200) => new RpcFailure(rpcCodes.invalidRequest, message, { status });

/** Differs for every other session. The ID of a question opens with it only. */
const purposeOf = ({ caller, client }: AskedSession): string =>
  `mcp-question\0${JSON.stringify([caller.environment, starterOf(caller.caller), client.session])}`;

/** The message of an error is the client's own, and may name what only its user should see. */
const errorCode = (error: JsonValue | undefined): JsonValue =>
  isObject(error) && Number.isSafeInteger(error["code"]) ? (error["code"] ?? null) : null;

/** Returns what a client has answered. Throws for an error of it: the action cannot continue. */
function resultIn(answer: JsonObject, name: string): JsonValue {
  const { result, error = null, tooLarge: isTooLarge } = answer;
  if (result !== undefined) return result;
  if (isTooLarge === true) throw failure(tooLarge);
  const code = error === null ? "an error" : `the error ${error}`;
  throw failure(`the client has answered the question \`${name}\` with ${code}`);
}
