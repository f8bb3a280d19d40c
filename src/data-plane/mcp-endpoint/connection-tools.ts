import { create, type JsonObject } from "@bufbuild/protobuf";
import type { Broker } from "../../broker/broker.ts";
import { requireConnectionWithin } from "../../broker/setup/caller.ts";
import {
  type Connection,
  type ConnectionRef,
  ConnectionRefSchema,
  Connection_State as State,
} from "../../gen/latchkey/v1/connection_pb.ts";
import { isOwn, ownTags, withConnection } from "./connection-choice.ts";
import type { EndpointCaller } from "./endpoint-caller.ts";
import { type CalledTool, ToolArguments, type ToolResult } from "./tool-call.ts";

type ConnectionToolServices = Pick<Broker, "listing" | "connections" | "live" | "integrations">;

const pageSize = 100;

/** Lists the connections that the caller may use, with their states. */
export async function listConnections(services: ConnectionToolServices, call: CalledTool): Promise<ToolResult> {
  const given = new ToolArguments(call.given);
  const integration = given.text("integration");
  const token = given.text("cursor") ?? "";
  given.end();
  await call.admit({ integration });
  const { caller } = call;
  if (integration !== undefined && caller.caller.limits?.integrations?.has(integration) === false) {
    requireConnectionWithin(caller.caller, { integration, id: "" });
  }
  const named = limitedRefs(caller, integration);
  if (named !== undefined) {
    const found = await services.connections.getMany(named);
    return { value: { connections: named.map((ref, i) => connectionJson(ref, found[i])), next_cursor: null } };
  }
  const integrations = integration === undefined ? [...(caller.caller.limits?.integrations ?? [])] : [integration];
  const tags = ownTags(caller);
  const query = { environment: caller.environment, integrations, id: "", search: "", tags, states: [] };
  const { items, next } = await services.listing.list(query, { size: pageSize, token });
  const admitted = items.filter((one) => one.ref !== undefined && admits(caller, one.ref) && isOwn(one, caller));
  const connections = admitted.map((one) => connectionJson(one.ref, one));
  return { value: { connections, next_cursor: next === "" ? null : next } };
}

const admits = ({ caller }: EndpointCaller, ref: ConnectionRef): boolean =>
  caller.limits === undefined || caller.limits.admitsConnection(ref);

/** Returns the connections that limits name; undefined: they allow whole integrations, or everything. */
function limitedRefs({ caller, environment }: EndpointCaller, wanted: string | undefined): ConnectionRef[] | undefined {
  const { limits } = caller;
  if (limits?.integrations === undefined) return undefined;
  const named = limits.given.connections.filter(({ integration }) => wanted === undefined || integration === wanted);
  if (named.some(({ id }) => id === "")) return undefined;
  return named.map(({ integration, id }) => create(ConnectionRefSchema, { environment, integration, id }));
}

const stateNames: ReadonlyMap<State, string> = new Map([
  [State.ACTIVE, "active"],
  [State.EXPIRING, "expiring"],
  [State.REFRESH_FAILING, "refresh_failing"],
  [State.REAUTHORIZATION_REQUIRED, "reauthorization_required"],
]);

function connectionJson(ref: ConnectionRef | undefined, found: Connection | undefined): JsonObject {
  const { integration = "", id = "" } = ref ?? {};
  const name = { integration, connection: id };
  if (found === undefined) return { ...name, state: "missing" };
  const { state, stateReason, missingScopes, choicesNeeded } = found;
  return {
    ...name,
    state: stateNames.get(state) ?? "unknown",
    ...(stateReason !== "" && { reason: stateReason }),
    ...(missingScopes.length > 0 && { missing_scopes: [...missingScopes] }),
    ...(choicesNeeded.length > 0 && { choices_needed: [...choicesNeeded] }),
  };
}

/** Asks for an account to be connected, unless it is and works. */
export async function connectAccount(services: ConnectionToolServices, call: CalledTool): Promise<ToolResult> {
  const given = new ToolArguments(call.given);
  const integration = given.requiredText("integration");
  const asked = given.text("connection");
  given.end();
  // A missing integration must not look like a missing connection.
  await services.integrations.get({ environment: call.caller.environment, key: integration });
  await call.admit({ integration });
  return withConnection(services, { call, integration, asked }, async (ref) => {
    await services.live.get(ref);
    return { value: { integration, connection: ref.id, state: "active" } };
  });
}
