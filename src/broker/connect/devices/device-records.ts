import { create } from "@bufbuild/protobuf";
import { Fault } from "../../../base/fault.ts";
import { type PendingDevice, PendingDeviceSchema } from "../../../gen/latchkey/stored/v1/stored_pb.ts";
import { type DeviceAuthorization, DeviceAuthorization_State } from "../../../gen/latchkey/v1/connect_session_pb.ts";
import { ConnectionRefSchema } from "../../../gen/latchkey/v1/connection_pb.ts";
import { type Change, StaleWrite, type Store } from "../../../store/contract.ts";
import type { StoredRecordOf } from "../../../store/records.ts";
import { type AuthorizationCollections, isWaiting } from "../authorization-collections.ts";
import type { ConnectionSummary } from "../authorize/authorized-connection.ts";
import type { FailureRecord } from "../authorize/failed-authorizations.ts";
import type { AuthorizationFailure } from "../authorize/failure.ts";

/** The stored device authorizations, and how they end. */
export interface DeviceRecords {
  /** Returns the IDs of authorizations that wait for their user. */
  waiting(limit: number): Promise<readonly string[]>;
  /** Returns undefined once the authorization has ended. */
  current(id: string): Promise<PendingDevice | undefined>;
  /** Returns the changes that end the authorization in the commit of its connection. Throws if it has ended. */
  connectedChanges(device: PendingDevice, connected: ConnectionSummary): Promise<Change[]>;
  /** Stores the failure and its log in one commit, unless the authorization has ended. */
  fail(device: PendingDevice, failure: FailureRecord): Promise<void>;
}

interface DeviceRecordsOptions {
  readonly store: Store;
  readonly collections: AuthorizationCollections;
}

type DeviceOutcome = Pick<DeviceAuthorization, "state"> &
  Partial<Pick<DeviceAuthorization, "connection" | "missingScopes" | "code" | "message">>;

export function createDeviceRecords({ store, collections }: DeviceRecordsOptions): DeviceRecords {
  const { pendingDevices } = collections;

  async function stored(id: string): Promise<StoredRecordOf<PendingDevice> | undefined> {
    const found = await pendingDevices.get(id);
    return found !== undefined && isWaiting(found.value) ? found : undefined;
  }

  function endedAs(before: StoredRecordOf<PendingDevice>, outcome: DeviceOutcome): Change[] {
    const { id, connectionId, createdAt, authorization } = before.value;
    if (authorization === undefined || createdAt === undefined) throw new Error("a stored device has its request");
    const ending: DeviceAuthorization = { ...authorization, ...outcome };
    const after = create(PendingDeviceSchema, { id, connectionId, createdAt, authorization: ending });
    return pendingDevices.change({ before, after });
  }

  return {
    async waiting(limit) {
      const found = await pendingDevices.pageBy("waiting", { under: [], limit });
      return found.map(({ value }) => value.id);
    },
    current: async (id) => (await stored(id))?.value,
    async connectedChanges(device, { connectionId: id, missingScopes }) {
      const { environment = "", integration = "" } = device.authorization ?? {};
      const connection = create(ConnectionRefSchema, { environment, integration, id });
      const before = await stored(device.id);
      if (before === undefined) throw new Fault("conflict", "the device authorization has ended");
      const state = DeviceAuthorization_State.CONNECTED;
      return endedAs(before, { state, connection, missingScopes: [...missingScopes] });
    },
    async fail(device, { failed: { by, message }, changes, tell }) {
      const before = await stored(device.id);
      if (before === undefined) return;
      try {
        await store.commit([...endedAs(before, { state: stateOf(by), code: by, message }), ...changes()]);
      } catch (error) {
        // Another process has ended the authorization.
        if (error instanceof StaleWrite) return;
        throw error;
      }
      tell();
    },
  };
}

const stateOf = (by: AuthorizationFailure["by"]): DeviceAuthorization_State =>
  by === "denied"
    ? DeviceAuthorization_State.DENIED
    : by === "expired"
      ? DeviceAuthorization_State.EXPIRED
      : DeviceAuthorization_State.FAILED;
