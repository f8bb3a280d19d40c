import type { Store } from "../store/contract.ts";
import { createAccessSessionCollections } from "./access-sessions/access-session-collections.ts";
import { createApprovalCollections } from "./approvals/approval-collections.ts";
import { createLogCollections } from "./audit/log-collections.ts";
import { createAuthorityCollections } from "./authority/authority-collections.ts";
import { createChannelCollections } from "./channels/channel-collections.ts";
import { createAuthorizationCollections } from "./connect/authorization-collections.ts";
import { createConnectionCollections, type LookupFieldNames } from "./connections/connection-collections.ts";
import { createWebhookCollections } from "./deliveries/webhook-collections.ts";
import { createEndUserCollections } from "./end-users/end-user-collections.ts";
import { createMcpClientCollections } from "./mcp-clients/mcp-client-collections.ts";
import { createRecordCollections } from "./records/record-collections.ts";
import { createRevocationCollections } from "./revocations/revocation-collections.ts";
import { createSetupCollections } from "./setup/setup-collections.ts";
import { createSignInCollections } from "./sign-in/sign-in-collections.ts";
import { createSyncCollections } from "./syncs/sync-collections.ts";

/** Everything that is stored. Each room has its collections and keys in its own file. */
export function createCollections(store: Store, names: LookupFieldNames) {
  return {
    ...createSetupCollections(store),
    ...createAccessSessionCollections(store),
    ...createApprovalCollections(store),
    ...createConnectionCollections(store, names),
    ...createAuthorizationCollections(store),
    ...createRevocationCollections(store),
    ...createEndUserCollections(store),
    ...createWebhookCollections(store),
    ...createChannelCollections(store),
    ...createSyncCollections(store),
    ...createSignInCollections(store),
    ...createAuthorityCollections(store),
    ...createLogCollections(store),
    ...createRecordCollections(store),
    ...createMcpClientCollections(store),
  } as const;
}

export type Collections = ReturnType<typeof createCollections>;
