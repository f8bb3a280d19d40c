import { create } from "@bufbuild/protobuf";
import { Fault } from "../../base/fault.ts";
import { type EdgeFault, EdgeFaultSchema } from "../../gen/latchkey/v1/edge_pb.ts";
import { faultOfStore } from "../stored/store-fault.ts";
import type { EdgeStream } from "./edge-stream.ts";

/** Returns the fault with which an edge answers its callers. */
export function edgeFaultOf(thrown: unknown): EdgeFault {
  const { code, message, hint = "", mistakes, metadata, retryAfterSeconds, payload } = faultOfStore(thrown);
  const details = {
    ...(mistakes.length > 0 && { mistakes }),
    ...(Object.keys(metadata).length > 0 && { metadata }),
    ...(retryAfterSeconds !== undefined && { retryAfterSeconds }),
    ...(payload !== undefined && { payload }),
  };
  const detailsJson = Object.keys(details).length === 0 ? "" : JSON.stringify(details);
  return create(EdgeFaultSchema, { code, message, hint, detailsJson });
}

const gone: ReadonlySet<Fault["code"]> = new Set([
  "unknown_connection",
  "unknown_provider_config",
  "unknown_environment",
  "unknown_provider",
]);

/** Whether the fault says that something does not exist, rather than that it could not be read now. */
export const saysGone = (thrown: unknown): boolean => gone.has(faultOfStore(thrown).code);

/** Returns why a connection of this environment is not given to the edge. */
export function refusalOf({ edge }: EdgeStream, environment: string): Fault | undefined {
  if (environment === "" || environment === edge.environment) return undefined;
  return new Fault("missing_scope", `the edge serves the environment "${edge.environment}", and no other`);
}
