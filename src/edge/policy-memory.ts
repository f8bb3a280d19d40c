import { Fault } from "../base/fault.ts";
import type { World } from "../base/world.ts";
import { type PolicySets, setOf } from "../broker/policies/policies-in-force.ts";
import type { PolicySet } from "../core/policies/policy-set.ts";
import type { EdgeHello, EdgePolicies } from "../gen/latchkey/v1/edge_pb.ts";

/** The policies of the environment, as a broker said. Until then, no request may be sent. */
export interface PolicyMemory extends PolicySets {
  apply(message: EdgePolicies): void;
  /** A broker has said everything. One that said nothing of policies knows none: it is an older one. */
  settle(): void;
  clear(): void;
  version(): EdgeHello["policiesVersion"];
}

interface HeldPolicies {
  readonly version: Uint8Array;
  readonly set: PolicySet | undefined;
}

const noVersion = new Uint8Array(0);

export function createPolicyMemory({ metrics }: Pick<World, "metrics">): PolicyMemory {
  let held: HeldPolicies | undefined;
  const hold = (next: HeldPolicies | undefined) => {
    held = next;
    metrics.edgeHeld.set({ kind: "policy" }, next?.set?.rules.length ?? 0);
  };
  return {
    of() {
      if (held === undefined) throw new Fault("brokers_unavailable", "no broker has said yet which policies apply");
      return held.set;
    },
    apply: ({ version, policies }) => hold({ version, set: setOf(policies) }),
    settle() {
      held ??= { version: noVersion, set: undefined };
    },
    clear: () => hold(undefined),
    version: () => held?.version ?? noVersion,
  };
}
