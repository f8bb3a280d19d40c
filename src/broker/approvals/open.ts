import type { World } from "../../base/world.ts";
import type { Connection } from "../../gen/latchkey/v1/connection_pb.ts";
import type { Store } from "../../store/contract.ts";
import type { Records } from "../../store/records.ts";
import type { Audit } from "../audit/audit.ts";
import type { Events } from "../deliveries/events.ts";
import type { SetupRoom } from "../setup/open.ts";
import type { SetupCollections } from "../setup/setup-collections.ts";
import { createTails } from "../stored/tails.ts";
import type { ApprovalCollections } from "./approval-collections.ts";
import { createRequesterEnd, withApprovals } from "./approval-endings.ts";
import { type ApprovalRequests, createApprovalRequests } from "./approval-requests.ts";
import { openApprovalWatch, type RequesterCollections } from "./approval-watch.ts";
import { type Approvals, createApprovals } from "./approvals.ts";
import { createSignedAnswers, type SignedAnswers } from "./signed-answers.ts";

export { withApprovals };

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
  readonly collections: ApprovalCollections &
    Pick<SetupCollections, "integrations" | "keys"> &
    RequesterCollections & { readonly connections: Records<Connection> };
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
  const endOf = createRequesterEnd({ store, collections, audit, world });
  watch.onRequesterEnd((ended) => {
    endOf(ended).catch((err: unknown) => world.log.warn("approvals of an ended requester were not ended", { err }));
  });
  return {
    approvals,
    approvalRequests: createApprovalRequests({ store, collections, watch, audit, events, world }),
    signedAnswers: createSignedAnswers({ approvals, signingSecrets, world }),
    release: watch.release,
    close: () => watch.close(),
  };
}
