import { hash } from "node:crypto";
import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import type { Broker } from "../../../broker/broker.ts";
import { claimedIdentity } from "../../../broker/credentials/on-behalf/subject-tokens.ts";
import { starterOf } from "../../../broker/setup/caller.ts";
import { canonicalJson } from "../../../core/dialect/canonical-json.ts";
import {
  type CallState,
  firstState,
  readCallState,
  withResponses,
  writeCallState,
} from "../../../core/mcp-endpoint/input/call-state.ts";
import { invalidParams } from "../../../core/mcp-endpoint/protocol.ts";
import type { EndpointCaller } from "../endpoint-caller.ts";

/** The states of calls that wait for answers. Clients keep them; this seals and opens them. */
export interface CallStates {
  /** Returns the state that a call continues. Rejects with `RpcFailure` for one that is not ours, or not of this call. */
  open(params: JsonObject, call: StatefulCall): Promise<CallState>;
  seal(state: CallState, call: StatefulCall): string;
}

/** The call that a state belongs to: the same caller, tool and arguments. */
export interface StatefulCall {
  readonly method: string;
  readonly tool: string;
  readonly given: JsonObject;
  readonly caller: EndpointCaller;
}

const prefix = "latchkey-input:";
/** A person needs a while for a form. */
const lifeMs = 15 * 60_000;
const maxDepth = 100;
/** Limits what a call holds in answers, and so the length of its state. */
const maxAnswerBytes = 256 * 1024;

export function createCallStates({ sealedTexts }: Pick<Broker, "sealedTexts">, now: () => number): CallStates {
  return {
    async open({ requestState, inputResponses }, call) {
      if (typeof requestState !== "string" || !requestState.startsWith(prefix)) {
        return firstState(typeof requestState === "string" ? requestState : "");
      }
      const text = await sealedTexts.open(purposeOf(call), requestState.slice(prefix.length));
      const before = text === undefined ? undefined : readCallState(text, now());
      if (before === undefined) {
        throw invalidParams("`requestState` is too old, was changed, or is of another call: call again without it");
      }
      const state = withResponses(before, inputResponses);
      if (Buffer.byteLength(JSON.stringify(state.answers)) > maxAnswerBytes) {
        throw invalidParams(`the answers of a call must have at most ${maxAnswerBytes / 1024} KiB`);
      }
      return state;
    },
    seal: (state, call) => `${prefix}${sealedTexts.seal(purposeOf(call), writeCallState(state, now() + lifeMs))}`,
  };
}

/** Returns a text that differs for every other call. The state opens with it only. */
function purposeOf({ method, tool, given, caller }: StatefulCall): string {
  const { environment, subjectToken, connectionHeader } = caller;
  const text = canonicalJson(given, maxDepth);
  if (text === undefined) throw invalidParams("the arguments are nested too deeply");
  const subject = subjectToken === undefined ? "" : claimedIdentity(subjectToken);
  // Not the ID alone: another key may have it later.
  const asker = starterOf(caller.caller);
  const about: JsonValue = [
    environment,
    asker,
    caller.caller.identity?.kind ?? "",
    subject,
    connectionHeader,
    method,
    tool,
  ];
  return `mcp-call\0${JSON.stringify(about)}\0${hash("sha256", text, "base64url")}`;
}
