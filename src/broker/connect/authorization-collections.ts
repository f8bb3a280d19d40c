import {
  type ConnectOutcome,
  ConnectOutcomeSchema,
  type PendingAuthorization,
  PendingAuthorizationSchema,
  type PendingChoice,
  PendingChoiceSchema,
  type PendingDevice,
  PendingDeviceSchema,
} from "../../gen/latchkey/stored/v1/stored_pb.ts";
import {
  type ConnectSession,
  ConnectSession_State,
  ConnectSessionSchema,
  DeviceAuthorization_State,
} from "../../gen/latchkey/v1/connect_session_pb.ts";
import type { Store } from "../../store/contract.ts";
import { createRecords } from "../../store/records.ts";
import { complete, strip } from "../stored/revisions.ts";
import { bornAt } from "../stored/sortable-time.ts";

/** Collections of connect sessions and of pending authorizations. */
export function createAuthorizationCollections(store: Store) {
  return {
    connectSessions: createRecords({
      store,
      name: "connect-session",
      schema: ConnectSessionSchema,
      key: ({ id }: ConnectSession) => [id],
      keyParts: 1,
      complete(session: ConnectSession, revision) {
        complete(session, revision);
        session.state = session.browserHash === "" ? ConnectSession_State.CREATED : ConnectSession_State.OPENED;
      },
      strip: (session: ConnectSession) => ({ ...strip(session), state: ConnectSession_State.UNSPECIFIED }),
      indexes: { age: ({ createdAt }: ConnectSession) => [[bornAt(createdAt)]] },
    }),
    pendingAuthorizations: createRecords({
      store,
      name: "pending-authorization",
      schema: PendingAuthorizationSchema,
      secret: true,
      key: ({ stateHash }: PendingAuthorization) => [stateHash],
      indexes: {
        age: ({ createdAt }: PendingAuthorization) => [[bornAt(createdAt)]],
        session: ({ sessionId }: PendingAuthorization) => [[sessionId]],
      },
    }),
    pendingChoices: createRecords({
      store,
      name: "pending-choice",
      schema: PendingChoiceSchema,
      secret: true,
      key: ({ tokenHash }: PendingChoice) => [tokenHash],
      indexes: { age: ({ createdAt }: PendingChoice) => [[bornAt(createdAt)]] },
    }),
    pendingDevices: createRecords({
      store,
      name: "pending-device",
      schema: PendingDeviceSchema,
      secret: true,
      key: ({ id }: PendingDevice) => [id],
      indexes: {
        age: ({ createdAt }: PendingDevice) => [[bornAt(createdAt)]],
        waiting: (device: PendingDevice) => (isWaiting(device) ? [[]] : []),
      },
    }),
    connectOutcomes: createRecords({
      store,
      name: "connect-outcome",
      schema: ConnectOutcomeSchema,
      key: ({ listenerHash }: ConnectOutcome) => [listenerHash],
      indexes: { age: ({ createdAt }: ConnectOutcome) => [[bornAt(createdAt)]] },
    }),
  } as const;
}

export const isWaiting = ({ authorization }: PendingDevice): boolean =>
  authorization?.state === DeviceAuthorization_State.PENDING;

export type AuthorizationCollections = ReturnType<typeof createAuthorizationCollections>;
