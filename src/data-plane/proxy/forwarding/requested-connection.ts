import { Fault } from "../../../base/fault.ts";
import type { ConnectionRef } from "../../../gen/latchkey/v1/connection_pb.ts";
import type { FrontHead } from "../../../relay/client/incoming.ts";

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
  const integration = headers["provider-config-key"] ?? "";
  const id = headers["connection-id"] ?? "";
  if (typeof integration !== "string" || integration === "") {
    throw new Fault("invalid_headers", "send the header Provider-Config-Key with the key of an integration");
  }
  if (typeof id !== "string" || id === "") {
    throw new Fault("invalid_headers", "send the header Connection-Id with the id of a connection");
  }
  return { $typeName: "latchkey.v1.ConnectionRef", environment, integration, id };
}
