import { Fault } from "../../base/fault.ts";
import type { Broker } from "../../broker/broker.ts";
import { type Caller, requireConnectionWithin } from "../../broker/setup/caller.ts";
import { neededChoices } from "../../core/needed-choices.ts";
import {
  type Connection,
  type ConnectionRef,
  ConnectionRefSchema,
  type UpdateMetadataRequest,
} from "../../gen/latchkey/v1/connection_pb.ts";
import type { RequireValid } from "../server/validate.ts";

/** Steps that single calls and batches have in common. */
export interface ConnectionCalls {
  /** Fills in the environment of a ref, if the caller may access it. Batch items were not validated before. */
  refOf(caller: Caller, ref: ConnectionRef | undefined): Promise<ConnectionRef>;
  /** Adds the time of the last use, and the choices that are still to be made. */
  shown(connection: Connection): Promise<Connection>;
  /** Adds only the choices. */
  withChoices(connection: Connection): Connection;
  updateMetadata(caller: Caller, request: UpdateMetadataRequest): Promise<Connection>;
}

export function createConnectionCalls(
  { connections, environments, providers }: Pick<Broker, "connections" | "environments" | "providers">,
  requireValid: RequireValid,
): ConnectionCalls {
  async function refOf(caller: Caller, ref: ConnectionRef | undefined): Promise<ConnectionRef> {
    if (ref === undefined) throw new Fault("invalid_body", "the item must name a connection");
    requireValid(ConnectionRefSchema, ref);
    requireConnectionWithin(caller, ref);
    return { ...ref, environment: await environments.of(caller, ref.environment) };
  }

  async function shown(connection: Connection): Promise<Connection> {
    const [one = connection] = await connections.withLastUse([connection]);
    return one;
  }

  async function updateMetadata(
    caller: Caller,
    { ref: named, metadata = {}, replace, expectedRevision }: UpdateMetadataRequest,
  ) {
    const ref = await refOf(caller, named);
    const [connection] = await connections.updateMetadata([{ ref, metadata, replace, expectedRevision }], caller.keyId);
    if (connection === undefined) throw new Error("one update has one result");
    return shown(connection);
  }

  const withChoices = (connection: Connection): Connection => ({
    ...connection,
    choicesNeeded: neededChoices(providers.lookUp(connection.provider), connection.connectionConfig),
  });

  return { refOf, shown, withChoices, updateMetadata };
}
