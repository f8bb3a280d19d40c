import { sharedAccount } from "../../core/shared-account.ts";
import type { Connection } from "../../gen/latchkey/v1/connection_pb.ts";
import type { ConnectionCollections } from "../connections/connection-collections.ts";
import type { CredentialsRoom } from "../credentials/open.ts";
import type { SharedServices } from "../deliveries/open.ts";
import type { SetupCollections } from "../setup/setup-collections.ts";
import { openDueRevocations } from "./due-revocations.ts";
import { createRevocationAttempt } from "./revocation-attempt.ts";
import type { RevocationCollections } from "./revocation-collections.ts";
import { createRevocationList, type ListRevocations } from "./revocation-list.ts";
import { createRevocationResults } from "./revocation-results.ts";
import { createRevocationRunner } from "./revocation-runner.ts";
import { createRevocationScheduler, type RevocationScheduler } from "./revocation-scheduler.ts";
import { createFindGrantUse } from "./shared-grant.ts";

export { createRevocationPlan } from "./new-revocations.ts";

/** Revokes the grants of deleted connections at their providers. */
export interface RevocationRoom {
  readonly listRevocations: ListRevocations;
  readonly scheduler: RevocationScheduler;
}

interface RevocationRoomOptions {
  readonly shared: SharedServices;
  readonly collections: SetupCollections & ConnectionCollections & RevocationCollections;
  readonly credentials: CredentialsRoom;
}

export async function openRevocations({
  shared,
  collections,
  credentials,
}: RevocationRoomOptions): Promise<RevocationRoom> {
  const { store, partitions, integrations, providers, events, logs, audit, world } = shared;
  const { tokens, askWith } = credentials;
  const accountOf = (connection: Connection) =>
    sharedAccount(connection, providers.lookUp(connection.provider)?.revocation);
  const runner = createRevocationRunner({
    collections,
    integrations,
    providers,
    attempt: createRevocationAttempt({ tokens, askWith, world }),
    findGrantUse: createFindGrantUse({ ...collections, accountOf }),
    results: createRevocationResults({ store, collections, events, logs, audit, world }),
    world,
  });
  const due = await openDueRevocations({ store, collections, partitions, world });
  return {
    listRevocations: createRevocationList(collections),
    scheduler: createRevocationScheduler({ partitions, due, runner, world }),
  };
}
