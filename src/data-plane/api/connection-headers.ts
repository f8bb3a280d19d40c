import type { IncomingHttpHeaders } from "node:http";
import { create } from "@bufbuild/protobuf";
import { Fault } from "../../base/fault.ts";
import { type ConnectionRef, ConnectionRefSchema } from "../../gen/latchkey/v1/connection_pb.ts";

interface ConnectionHeaders {
  readonly environment: string;
  readonly headers: IncomingHttpHeaders;
}

/** Returns the connection that two headers name. */
export function connectionIn({ environment, headers }: ConnectionHeaders): ConnectionRef {
  const integration = headers["provider-config-key"];
  const id = headers["connection-id"];
  if (typeof integration !== "string" || integration === "") {
    throw new Fault("invalid_headers", "send the header Provider-Config-Key with the key of an integration");
  }
  if (typeof id !== "string" || id === "") {
    throw new Fault("invalid_headers", "send the header Connection-Id with the id of a connection");
  }
  return create(ConnectionRefSchema, { environment, integration, id });
}
