import type { Broker } from "../../broker/broker.ts";
import { connectionFull } from "../../core/dialect/sdk-json.ts";
import type { Connection } from "../../gen/latchkey/v1/connection_pb.ts";

/** Returns a connection with the time of its last use. */
export async function fullConnection(
  { connections }: Pick<Broker, "connections">,
  connection: Connection,
  credentials: Parameters<typeof connectionFull>[1],
) {
  const [shown = connection] = await connections.withLastUse([connection]);
  return connectionFull(shown, credentials);
}
