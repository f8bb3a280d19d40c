import { create } from "@bufbuild/protobuf";
import { Fault } from "../../base/fault.ts";
import type { Broker } from "../../broker/broker.ts";
import { requireConnectionWithin } from "../../broker/setup/caller.ts";
import { Connection_State, type ConnectionRef, ConnectionRefSchema } from "../../gen/latchkey/v1/connection_pb.ts";
import type { EndpointCaller } from "./endpoint-caller.ts";
import { AccountNeeded, type CalledTool } from "./tool-call.ts";

type ConnectionServices = Pick<Broker, "listing" | "connections">;

const maxNamed = 5;

interface ConnectionUse {
  readonly call: CalledTool;
  readonly integration: string;
  /** ID in the arguments; undefined: none. */
  readonly asked: string | undefined;
}

/**
 * Runs `use` with the connection of a call. Throws `AccountNeeded` if there is none, or if its account must be
 * connected again.
 */
export async function withConnection<T>(
  services: ConnectionServices,
  { call, integration, asked }: ConnectionUse,
  use: (ref: ConnectionRef) => Promise<T>,
): Promise<T> {
  const { caller, noteConnection } = call;
  const id = await chosenId(services, { caller, integration, asked });
  noteConnection({ integration, id });
  if (id === "") {
    throw new AccountNeeded(
      new Fault("unknown_connection", `no account of the integration "${integration}" is connected yet`),
      { integration, id },
    );
  }
  try {
    return await use(create(ConnectionRefSchema, { environment: caller.environment, integration, id }));
  } catch (error) {
    if (error instanceof Fault && isMended(error)) throw new AccountNeeded(error, { integration, id });
    throw error;
  }
}

/** Throws if the grant of a connection is known to be dead. Called when a request has failed. */
export async function requireLiveGrant(connections: Broker["connections"], ref: ConnectionRef): Promise<void> {
  const [found] = await connections.getMany([ref]);
  if (found?.state !== Connection_State.REAUTHORIZATION_REQUIRED) return;
  throw new Fault("reauthorization_required", "the end user must authorize the connection again");
}

/** Whether a fault is over once the user has connected the account. */
export const isMended = ({ code }: Fault): boolean =>
  code === "unknown_connection" || code === "reauthorization_required";

interface WantedConnection extends Pick<ConnectionUse, "integration" | "asked"> {
  readonly caller: EndpointCaller;
}

/** Returns the ID of the connection that a caller means; empty: there is none. Throws if there is a choice. */
async function chosenId(services: ConnectionServices, wanted: WantedConnection): Promise<string> {
  const { caller, integration, asked } = wanted;
  const named = asked ?? caller.connectionHeader;
  if (named !== "") {
    requireConnectionWithin(caller.caller, { integration, id: named });
    return named;
  }
  const ids = limitedIds(caller, integration) ?? (await existingIds(services, caller, integration));
  const [only = "", second] = ids;
  if (second === undefined) return only;
  const choices = `${ids.slice(0, maxNamed).join(", ")}${ids.length > maxNamed ? ", …" : ""}`;
  throw new Fault(
    "ambiguous_connection",
    `the integration "${integration}" has several connections: name one in \`connection\`: ${choices}`,
  );
}

/** Returns the IDs that limits name; undefined: they allow all. Throws if they allow none. */
function limitedIds({ caller }: EndpointCaller, integration: string): string[] | undefined {
  const { limits } = caller;
  if (limits?.integrations === undefined) return undefined;
  if (!limits.integrations.has(integration)) requireConnectionWithin(caller, { integration, id: "" });
  const ids = limits.given.connections.filter((one) => one.integration === integration).map(({ id }) => id);
  return ids.includes("") ? undefined : [...new Set(ids)];
}

async function existingIds(
  { listing }: ConnectionServices,
  { environment }: EndpointCaller,
  integration: string,
): Promise<string[]> {
  const query = { environment, integrations: [integration], id: "", search: "", tags: {}, states: [] };
  const { items } = await listing.list(query, { size: maxNamed + 1, token: "" });
  return items.map(({ ref }) => ref?.id ?? "");
}
