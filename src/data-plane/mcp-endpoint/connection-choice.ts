import { create } from "@bufbuild/protobuf";
import { Fault } from "../../base/fault.ts";
import type { Broker } from "../../broker/broker.ts";
import { requireConnectionWithin } from "../../broker/setup/caller.ts";
import {
  type Connection,
  Connection_State,
  type ConnectionRef,
  ConnectionRefSchema,
} from "../../gen/latchkey/v1/connection_pb.ts";
import type { EndpointCaller } from "./endpoint-caller.ts";
import { AccountNeeded, type CalledTool, type WantedAccount } from "./tool-call.ts";

type ConnectionServices = Pick<Broker, "listing" | "connections">;

const maxNamed = 5;

interface ConnectionUse {
  readonly call: Pick<CalledTool, "caller" | "noteConnection">;
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
    await requireOwn(services, caller, { integration, id: named });
    return named;
  }
  const ids = await usableIds(services, { caller, integration, size: maxNamed + 1, prefix: "" });
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

/** Throws if a caller who is an end user may not use a connection, as if there were none. */
async function requireOwn(
  { connections }: ConnectionServices,
  caller: EndpointCaller,
  { integration, id }: WantedAccount,
): Promise<void> {
  const userId = ownerOf(caller);
  if (userId === undefined) return;
  const [found] = await connections.getMany([
    create(ConnectionRefSchema, { environment: caller.environment, integration, id }),
  ]);
  if (found?.endUser?.id === userId) return;
  throw new Fault("unknown_connection", `you have no connection "${id}" of the integration "${integration}"`);
}

/** Returns the end user whose connections alone a caller may use; undefined: those within its limits. */
const ownerOf = ({ caller: { endUserId, limits } }: EndpointCaller): string | undefined =>
  limits?.integrations === undefined ? endUserId : undefined;

/** Whether a caller may use a connection: tags alone prove no owner. */
export function isOwn({ endUser }: Pick<Connection, "endUser">, caller: EndpointCaller): boolean {
  const userId = ownerOf(caller);
  return userId === undefined || endUser?.id === userId;
}

/** Returns the tags of the connections that a caller may use. */
export function ownTags(caller: EndpointCaller): Readonly<Record<string, string>> {
  const userId = ownerOf(caller);
  return userId === undefined ? {} : { [endUserTag]: userId };
}

/** Mirrors the ID of a connection's end user, and is indexed. */
const endUserTag = "end_user_id";

interface UsableConnections {
  readonly caller: EndpointCaller;
  readonly integration: string;
  readonly size: number;
  /** Beginning of the IDs; empty: any. */
  readonly prefix: string;
}

/** Returns IDs of the connections that a caller may use. Throws if its limits allow none. */
export async function usableIds(
  { listing }: Pick<ConnectionServices, "listing">,
  { caller, integration, size, prefix }: UsableConnections,
): Promise<string[]> {
  const limited = limitedIds(caller, integration);
  if (limited !== undefined) return limited.filter((id) => id.startsWith(prefix));
  const { environment } = caller;
  const query = { environment, integrations: [integration], id: "", search: "", tags: ownTags(caller), states: [] };
  const { items } = await listing.list(query, { size: prefix === "" ? size : maxListed, token: "" });
  const ids = items.filter((one) => isOwn(one, caller)).map(({ ref }) => ref?.id ?? "");
  return ids.filter((id) => id.startsWith(prefix)).slice(0, size);
}

/** Completion looks at so many connections. */
const maxListed = 1_000;
