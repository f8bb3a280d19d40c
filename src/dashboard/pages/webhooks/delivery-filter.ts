import type { Timestamp } from "@bufbuild/protobuf/wkt";
import type { Forward_State as DeliveryState, Forward } from "../../../gen/latchkey/v1/webhook_pb.ts";
import { useSince } from "../../data/since.ts";
import { environmentName } from "../../state/environment.ts";
import { queryValue } from "../../state/router.ts";
import { statesOf } from "./delivery-words.ts";

/** The filters of deliveries, as the address has them. */
export interface DeliveryFilter {
  readonly environment: string;
  readonly integration: string;
  readonly connectionId: string;
  readonly states: readonly DeliveryState[];
  readonly destination: string;
  readonly since: Timestamp | undefined;
}

export function useDeliveryFilter(): DeliveryFilter {
  const since = useSince(queryValue("since"));
  const integration = queryValue("integration");
  return {
    environment: environmentName.value,
    integration,
    // A connection is one of an integration.
    connectionId: integration === "" ? "" : queryValue("connection"),
    states: statesOf(queryValue("state")),
    destination: queryValue("destination"),
    since,
  };
}

export const filterMessage = ({ states, since, ...filter }: Omit<DeliveryFilter, "environment">) => ({
  ...filter,
  states: [...states],
  ...(since !== undefined && { since }),
});

/** Whether a new delivery belongs into the list. */
export const fitsDelivery = (
  one: Forward,
  { integration, connectionId, states, destination }: DeliveryFilter,
): boolean =>
  (integration === "" || one.integration === integration) &&
  (connectionId === "" || one.connectionId === connectionId) &&
  (states.length === 0 || states.includes(one.state)) &&
  (destination === "" || one.destination === destination);
