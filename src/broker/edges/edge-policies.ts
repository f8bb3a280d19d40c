import { create } from "@bufbuild/protobuf";
import { Fault } from "../../base/fault.ts";
import { edgeVersion, isSameVersion } from "../../core/edges/edge-version.ts";
import { type EdgePolicies as EdgePoliciesMessage, EdgePoliciesSchema } from "../../gen/latchkey/v1/edge_pb.ts";
import { type Policy, PolicyEffect, PolicySchema } from "../../gen/latchkey/v1/policy_pb.ts";
import type { PoliciesInForce } from "../policies/policies-in-force.ts";
import type { EdgeStream } from "./edge-stream.ts";

/** Policies, for all edges of their environment. */
export interface EdgePolicies {
  /** Sends the policies unless the edge has them. Throws for an edge that would not apply them. */
  resume(stream: EdgeStream, version: Uint8Array): void;
  dropAll(stream: EdgeStream): void;
  close(): void;
}

interface EdgePoliciesOptions {
  readonly inForce: Pick<PoliciesInForce, "all" | "listen">;
  readonly onPush: () => void;
}

export function createEdgePolicies({ inForce, onPush }: EdgePoliciesOptions): EdgePolicies {
  const streams = new Map<EdgeStream, Uint8Array>();
  const messages = new Map<string, EdgePoliciesMessage>();

  /** Returns what edges get of the policies of an environment. Made once for each change. Without any: no version. */
  function messageOf(environment: string): EdgePoliciesMessage {
    const known = messages.get(environment);
    if (known !== undefined) return known;
    const policies = inForce.all(environment).filter(({ disabled }) => !disabled);
    const made = create(EdgePoliciesSchema, { policies: policies.map(edgePolicy) });
    if (policies.length > 0) made.version = edgeVersion(EdgePoliciesSchema, made);
    messages.set(environment, made);
    return made;
  }

  function send(stream: EdgeStream): void {
    const { environment, appliesPolicies } = stream.edge;
    const value = messageOf(environment);
    // An older edge would send what policies refuse.
    if (!appliesPolicies) {
      if (value.policies.length > 0) stream.outbox.end(tooOld());
      return;
    }
    if (isSameVersion(streams.get(stream) ?? new Uint8Array(0), value.version)) return;
    streams.set(stream, value.version);
    stream.outbox.put("policies", { case: "policies", value });
    onPush();
  }

  const stop = inForce.listen((environments) => {
    for (const environment of environments) messages.delete(environment);
    for (const stream of streams.keys()) if (environments.includes(stream.edge.environment)) send(stream);
  });

  return {
    resume(stream, version) {
      streams.set(stream, version);
      send(stream);
    },
    dropAll: (stream) => void streams.delete(stream),
    close: stop,
  };
}

const tooOld = () =>
  new Fault("denied_by_policy", "the environment has policies, which this edge does not apply: update the edge");

/** Returns what an edge needs of a policy. */
const edgePolicy = ({ id, environment, about, effect, condition, description }: Policy): Policy =>
  create(PolicySchema, {
    id,
    environment,
    // An edge cannot ask a person. A refusal is also what an edge of an older version understands.
    effect: effect === PolicyEffect.HOLD ? PolicyEffect.DENY : effect,
    condition,
    description,
    ...(about && { about }),
  });
