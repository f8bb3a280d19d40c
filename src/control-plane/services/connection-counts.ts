import { create } from "@bufbuild/protobuf";
import type { ConnectionCensus } from "../../broker/connections/census/census.ts";
import type { GroupQuery } from "../../broker/connections/census/census-groups.ts";
import {
  type ConnectionCount,
  ConnectionCountSchema,
  type CountConnectionsResponse,
  CountConnectionsResponseSchema,
} from "../../gen/latchkey/v1/connection_pb.ts";

/** A store of ten thousand connections is read in this time; for a larger one the caller asks again. */
const waitMs = 300;

export async function countedConnections(
  census: ConnectionCensus,
  query: GroupQuery,
): Promise<CountConnectionsResponse> {
  const isComplete = await census.soonReady(waitMs);
  const counts = census
    .groups(query)
    .map(({ integration, state, reason, count }) =>
      create(ConnectionCountSchema, { integration, state, stateReason: reason, count }),
    );
  return create(CountConnectionsResponseSchema, {
    counts: counts.sort(inOrder),
    isComplete,
    ...(isComplete ? {} : { readSoFar: census.readSoFar }),
  });
}

function inOrder(one: ConnectionCount, other: ConnectionCount): number {
  if (one.integration !== other.integration) return one.integration < other.integration ? -1 : 1;
  if (one.state !== other.state) return one.state - other.state;
  return one.stateReason < other.stateReason ? -1 : 1;
}
