import type { World } from "../../base/world.ts";
import type { ConnectionFacts } from "../../core/policies/party-facts.ts";
import { messagePoliciesOf, type Verdict } from "../../core/policies/policy-set.ts";
import {
  type JudgedOwnMessage,
  laterRequest,
  noRequest,
  type OwnMessage,
  OwnMessageFacts,
} from "../../core/policies/tool-call-facts.ts";
import { EvaluationFailure } from "../../core/policies/values.ts";
import type { Connection } from "../../gen/latchkey/v1/connection_pb.ts";
import type { GatedCaller } from "./gated-caller.ts";
import type { PolicySets } from "./policies-in-force.ts";
import { judgedCaller, scopesOfParties } from "./policy-gate.ts";
import { createVerdictNotes } from "./verdict-notes.ts";

/** A message for Latchkey's own MCP endpoint. */
export interface GatedMessage {
  readonly message: OwnMessage;
  readonly caller: GatedCaller;
  readonly environment: string;
  /** Undefined: the message is for no integration. */
  readonly integration: { readonly key: string; readonly provider: string } | undefined;
  /** `unknown`: it is not chosen yet, or does not exist. */
  readonly connection: Connection | "none" | "unknown";
  /** The message becomes a request to a provider, which is judged too. */
  readonly becomesRequest: boolean;
}

/** Judges messages for Latchkey's own MCP endpoint by the policies that read `mcp.*`. All others are about requests. */
export interface MessageGate {
  /** Returns the verdict, without counting it; undefined: no policy of the environment reads messages. */
  judge(gated: GatedMessage): Verdict | undefined;
  /** Counts and logs a verdict. Throws `denied_by_policy` unless it allows or holds the message. */
  enforce(gated: GatedMessage, verdict: Verdict): void;
}

interface MessageGateOptions {
  readonly sets: PolicySets;
  readonly world: World;
}

export function createMessageGate({ sets, world }: MessageGateOptions): MessageGate {
  const notes = createVerdictNotes(world);
  return {
    judge(gated) {
      const all = sets.of(gated.environment);
      const set = all && messagePoliciesOf(all);
      if (set === undefined) return undefined;
      const judged = judgedMessage(gated, world.now());
      return set.judge(new OwnMessageFacts(judged), scopesOfParties(judged, undefined));
    },
    enforce: ({ message, caller, environment, integration, connection }, verdict) =>
      notes.enforce(verdict, {
        caller,
        environment,
        integration: integration?.key ?? "",
        connection: typeof connection === "string" ? "" : connection.ref?.id,
        method: message.method,
      }),
  };
}

const unknownConnection = new EvaluationFailure("the connection is not known", { isUnknown: true });

const judgedMessage = (gated: GatedMessage, nowMs: number): JudgedOwnMessage => {
  const { message, caller, environment, integration, becomesRequest } = gated;
  const { key = "", provider = "" } = integration ?? {};
  return {
    message,
    request: becomesRequest ? laterRequest : noRequest,
    nowMs,
    caller: judgedCaller(caller),
    integration: { key, provider, environment },
    connection: connectionFacts(gated),
  };
};

function connectionFacts({ connection }: GatedMessage): ConnectionFacts {
  if (connection === "none") return { id: "", tags: {}, metadata: {} };
  if (connection === "unknown") {
    return { id: unknownConnection, tags: unknownConnection, metadata: unknownConnection };
  }
  const { ref, tags, metadata = {} } = connection;
  return { id: ref?.id ?? "", tags, metadata };
}
