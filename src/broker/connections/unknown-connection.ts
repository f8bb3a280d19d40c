import { Fault } from "../../base/fault.ts";
import type { ConnectionRef } from "../../gen/latchkey/v1/connection_pb.ts";

export const unknownConnection = ({ environment, integration, id: name }: ConnectionRef): Fault =>
  new Fault("unknown_connection", `there is no connection "${name}" of the integration "${integration}"`, {
    missing: { kind: "connection", name, environment, integration },
  });
