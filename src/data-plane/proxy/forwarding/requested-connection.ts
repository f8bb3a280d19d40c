import { Fault } from "../../../base/fault.ts";
import type { ConnectionRef } from "../../../gen/latchkey/v1/connection_pb.ts";
import type { FrontHead } from "../../../relay/client/incoming.ts";
import { connectionIn } from "./connection-headers.ts";

interface ConnectionNaming {
  /** The environment of the caller. */
  readonly environment: string | undefined;
  readonly alias: ConnectionRef | undefined;
}

/** Throws for a control key, which has no environment. */
export function requireEnvironment(environment: string | undefined): string {
  if (environment !== undefined) return environment;
  throw new Fault("missing_scope", "this key is a control key; send the key of an environment");
}

/** Returns the connection that a request names. */
export function requestedConnection({ headers }: FrontHead, naming: ConnectionNaming): ConnectionRef {
  const { alias } = naming;
  const environment = requireEnvironment(naming.environment);
  if (alias !== undefined) {
    if (alias.environment === environment) return alias;
    throw new Fault("unknown_connection", "there is no such connection in this environment");
  }
  return connectionIn({ environment, headers });
}
