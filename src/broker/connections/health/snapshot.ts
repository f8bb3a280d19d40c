import { create, fromBinary } from "@bufbuild/protobuf";
import { bytesFor } from "../../../base/message-bytes.ts";
import { type RefreshRecord, RefreshRecordSchema } from "../../../gen/latchkey/stored/v1/stored_pb.ts";
import type { Connection, ConnectionRef } from "../../../gen/latchkey/v1/connection_pb.ts";
import { type Credentials, CredentialsSchema } from "../../../gen/latchkey/v1/credentials_pb.ts";
import type { Change, Condition, Store } from "../../../store/contract.ts";
import type { StoredRecordOf } from "../../../store/records.ts";
import { type ConnectionCollections, credentialsKey } from "../connection-collections.ts";

/** A connection, its credentials and its refresh record, as they were read. */
export interface ConnectionSnapshot {
  readonly connection: StoredRecordOf<Connection>;
  readonly credentials: Credentials;
  /** The revision of the credentials: every update depends on it being current. */
  readonly credentialsRevision: number;
  readonly record: StoredRecordOf<RefreshRecord> | undefined;
}

interface HealthSource {
  readonly store: Store;
  readonly collections: Pick<ConnectionCollections, "connections" | "refreshes">;
}

/** Returns undefined if the connection does not exist. */
export async function readSnapshot(
  { store, collections }: HealthSource,
  { environment, integration, id }: ConnectionRef,
): Promise<ConnectionSnapshot | undefined> {
  const [connection, entry, record] = await Promise.all([
    collections.connections.get(environment, integration, id),
    store.get(credentialsKey(environment, integration, id)),
    collections.refreshes.get(environment, integration, id),
  ]);
  if (connection === undefined || entry === undefined) return undefined;
  const credentials = fromBinary(CredentialsSchema, entry.value);
  return { connection, credentials, credentialsRevision: entry.revision, record };
}

/** If the credentials were replaced, or the connection was deleted, the update no longer applies. */
export const sameCredentials = ({ connection, credentialsRevision }: ConnectionSnapshot): Condition => ({
  key: credentialsKeyOf(connection.value),
  expect: credentialsRevision,
});

const bytesOfCredentials = bytesFor(CredentialsSchema);

/**
 * Returns the change of the credentials alone, which does not conflict with writes to the connection itself. Their
 * health is updated later.
 */
export const credentialsChange = (
  { connection, credentialsRevision }: ConnectionSnapshot,
  credentials: Credentials,
): Change => ({
  key: credentialsKeyOf(connection.value),
  value: bytesOfCredentials(credentials),
  secret: true,
  expect: credentialsRevision,
});

/** The refresh record; a new one if nothing was worth storing. */
export const recordOf = ({ connection, record }: ConnectionSnapshot): RefreshRecord =>
  record?.value ?? newRecord(refOf(connection.value));

export const newRecord = ({ environment, integration, id }: ConnectionRef): RefreshRecord =>
  create(RefreshRecordSchema, { environment, integration, connectionId: id });

export function refOf({ ref }: Pick<Connection, "ref">): ConnectionRef {
  if (ref === undefined) throw new Error("a connection has a ref");
  return ref;
}

function credentialsKeyOf(connection: Connection): string {
  const { environment, integration, id } = refOf(connection);
  return credentialsKey(environment, integration, id);
}
