import { Fault } from "../../../base/fault.ts";
import type { ConnectionRef } from "../../../gen/latchkey/v1/connection_pb.ts";
import type { FrontHead } from "../../../relay/client/incoming.ts";

interface ConnectionHeaders extends Pick<FrontHead, "headers"> {
  readonly environment: string;
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
  return { $typeName: "latchkey.v1.ConnectionRef", environment, integration, id };
}
