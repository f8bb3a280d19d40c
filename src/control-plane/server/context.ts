import { create } from "@bufbuild/protobuf";
import type { HandlerContext } from "@connectrpc/connect";
import { type Caller, requireConnectionWithin } from "../../broker/setup/caller.ts";
import type { Environments } from "../../broker/setup/environments.ts";
import { type ConnectionRef, ConnectionRefSchema } from "../../gen/latchkey/v1/connection_pb.ts";
import { callerKey } from "./gate.ts";

export function callerOf({ values }: HandlerContext): Caller {
  const caller = values.get(callerKey);
  if (caller === undefined) throw new Error("a method without a scope asks for its caller");
  return caller;
}

/** Returns the connection that a validated request names, in the caller's environment if the request names none. */
export async function connectionRefOf(
  environments: Pick<Environments, "of">,
  connection: ConnectionRef | undefined,
  context: HandlerContext,
): Promise<ConnectionRef> {
  if (connection === undefined) throw new Error("a validated request names its connection");
  const caller = callerOf(context);
  const environment = await environments.of(caller, connection.environment);
  requireConnectionWithin(caller, connection);
  return create(ConnectionRefSchema, { ...connection, environment });
}

const defaultPageSize = 100;

/** Returns the page that a list request asks for. */
export const pageOf = ({ pageSize, pageToken }: { readonly pageSize: number; readonly pageToken: string }) => ({
  size: pageSize === 0 ? defaultPageSize : pageSize,
  token: pageToken,
});
