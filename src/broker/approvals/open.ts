import type { World } from "../../base/world.ts";
import type { Store } from "../../store/contract.ts";
import type { Audit } from "../audit/audit.ts";
import type { Events } from "../deliveries/events.ts";
import type { SetupRoom } from "../setup/open.ts";
import type { SetupCollections } from "../setup/setup-collections.ts";
import { createTails } from "../stored/tails.ts";
import type { ApprovalCollections } from "./approval-collections.ts";
import { type ApprovalRequests, createApprovalRequests } from "./approval-requests.ts";
import { openApprovalWatch } from "./approval-watch.ts";
import { type Approvals, createApprovals } from "./approvals.ts";
import { createSignedAnswers, type SignedAnswers } from "./signed-answers.ts";

/** Approvals: requests that policies hold until a person answers. */
export interface ApprovalRoom {
  readonly approvals: Approvals;
  readonly approvalRequests: ApprovalRequests;
  readonly signedAnswers: SignedAnswers;
  /** Ends the waits of requests: the process stops. */
  release(): void;
  close(): void;
}

interface ApprovalRoomOptions {
  readonly store: Store;
  readonly collections: ApprovalCollections & Pick<SetupCollections, "integrations">;
  readonly signingSecrets: Pick<SetupRoom["signingSecrets"], "of">;
  readonly audit: Audit;
  readonly events: Pick<Events, "approval">;
  readonly world: World;
}

export async function openApprovals(options: ApprovalRoomOptions): Promise<ApprovalRoom> {
  const { store, collections, signingSecrets, audit, events, world } = options;
  const watch = await openApprovalWatch({ store, collections, world });
  const approvals = createApprovals({
    store,
    collections,
    watch,
    tail: createTails({ store, world }),
    audit,
    events,
    providerOf: async ({ connection }) => {
      const found = connection && (await collections.integrations.get(connection.environment, connection.integration));
      return found?.value.provider ?? "";
    },
    world,
  });
  return {
    approvals,
    approvalRequests: createApprovalRequests({ store, collections, watch, audit, events, world }),
    signedAnswers: createSignedAnswers({ approvals, signingSecrets, world }),
    release: watch.release,
    close: () => watch.close(),
  };
}
