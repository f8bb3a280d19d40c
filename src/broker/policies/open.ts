import type { World } from "../../base/world.ts";
import type { Store } from "../../store/contract.ts";
import type { Audit } from "../audit/audit.ts";
import type { CredentialsRoom } from "../credentials/open.ts";
import type { SetupRoom } from "../setup/open.ts";
import type { SetupCollections } from "../setup/setup-collections.ts";
import { createExplainPolicies, type ExplainPolicies } from "./explain-policies.ts";
import { createMessageGate, type MessageGate } from "./message-gate.ts";
import { createPolicies, type Policies } from "./policies.ts";
import { openPoliciesInForce, type PoliciesInForce } from "./policies-in-force.ts";
import { createPolicyGate, type PolicyGate } from "./policy-gate.ts";

/** Policies: conditions that decide which requests are sent to providers. */
export interface PolicyRoom {
  readonly policies: Policies;
  readonly policiesInForce: PoliciesInForce;
  readonly policyGate: PolicyGate;
  readonly messageGate: MessageGate;
  readonly explainPolicies: ExplainPolicies;
  close(): void;
}

interface PolicyRoomOptions {
  readonly store: Store;
  readonly collections: SetupCollections;
  readonly setup: Pick<SetupRoom, "access">;
  readonly credentials: Pick<CredentialsRoom, "live" | "attachments">;
  readonly audit: Audit;
  readonly world: World;
}

/** Resolves once all policies are in memory: no request is served before. */
export async function openPolicies(options: PolicyRoomOptions): Promise<PolicyRoom> {
  const { store, collections, setup, credentials, audit, world } = options;
  const policiesInForce = await openPoliciesInForce({ store, collections, world });
  return {
    policies: createPolicies({ store, collections, inForce: policiesInForce, audit, world }),
    policiesInForce,
    policyGate: createPolicyGate({ sets: policiesInForce, knowsConnections: true, world }),
    messageGate: createMessageGate({ sets: policiesInForce, world }),
    explainPolicies: createExplainPolicies({
      inForce: policiesInForce,
      live: credentials.live,
      attachments: credentials.attachments,
      callerOf: setup.access.callerWithId,
      world,
    }),
    close: () => policiesInForce.close(),
  };
}
