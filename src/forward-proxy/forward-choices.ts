import { create } from "@bufbuild/protobuf";
import { Fault } from "../base/fault.ts";
import type { Caller } from "../broker/setup/caller.ts";
import type { ForwardTarget, ProxyConnectionName } from "../data-plane/proxy/forwarding/forward-target.ts";
import type {
  ForwardChoice,
  ForwardChoiceRequest,
  ForwardChoices,
} from "../data-plane/proxy/forwarding/forwarded-requests.ts";
import { type ConnectionRef, ConnectionRefSchema } from "../gen/latchkey/v1/connection_pb.ts";
import { chosenConnection, isForAnyPath } from "./connection-choice.ts";
import type { RouteTable, RouteTables } from "./route-tables.ts";

/** Chooses the connection of each request: by its name, or by the host and the path. */
export function createForwardChoices(tables: RouteTables): ForwardChoices {
  return {
    of(request) {
      const { target, caller, named = target.named } = request;
      const environment = environmentOf(caller);
      if (target.alias !== undefined) return fixed(aliasOf(target.alias, environment));
      if (named !== undefined) return fixed(refOf(environment, complete(named)));
      const table = tables.of(environment, target.origin);
      return table instanceof Promise ? table.then((one) => chosen(request, one)) : chosen(request, table);
    },
  };
}

function chosen({ target: { authority }, caller, path }: ForwardChoiceRequest, table: RouteTable): ForwardChoice {
  const named = chosenConnection({ caller, table, authority, path });
  const { environment, freshUntilMs } = table;
  return { ref: refOf(environment, named), untilMs: freshUntilMs, isForAnyPath: isForAnyPath(table) };
}

const fixed = (ref: ConnectionRef): ForwardChoice => ({
  ref,
  untilMs: Number.POSITIVE_INFINITY,
  isForAnyPath: true,
});

const refOf = (environment: string, { integration, id }: ProxyConnectionName): ConnectionRef =>
  create(ConnectionRefSchema, { environment, integration, id });

/** Throws for a control key, which has no environment. */
export function environmentOf({ environment }: Caller): string {
  if (environment !== undefined) return environment;
  throw new Fault("missing_scope", "this key is a control key; send the key of an environment");
}

function aliasOf(alias: NonNullable<ForwardTarget["alias"]>, environment: string): ConnectionRef {
  if (alias.environment === environment) return alias;
  throw new Fault("unknown_connection", "there is no such connection in this environment");
}

function complete(named: ProxyConnectionName): ProxyConnectionName {
  if (named.integration !== "" && named.id !== "") return named;
  throw new Fault("invalid_headers", "name both the integration and the connection, or neither");
}
