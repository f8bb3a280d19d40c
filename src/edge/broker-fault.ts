import type { JsonValue } from "@bufbuild/protobuf";
import { Fault, type FaultCode, faults, type Mistake } from "../base/fault.ts";
import type { EdgeFault } from "../gen/latchkey/v1/edge_pb.ts";

/** Returns the fault of a broker, as the broker itself would answer with it. A newer one may know codes that we do not. */
export function faultOf({ code, message, hint, detailsJson }: EdgeFault): Fault {
  const known = Object.hasOwn(faults, code) ? (code as FaultCode) : "connection_unusable";
  return Fault.withoutStack(known, message, { ...detailsIn(detailsJson), ...(hint !== "" && { hint }) });
}

function detailsIn(json: string): ConstructorParameters<typeof Fault>[2] {
  if (json === "") return {};
  try {
    const { retryAfterSeconds, metadata, mistakes, payload } = JSON.parse(json) as Readonly<Record<string, unknown>>;
    return {
      ...(typeof retryAfterSeconds === "number" && { retryAfterSeconds }),
      ...(isTexts(metadata) && { metadata }),
      ...(Array.isArray(mistakes) && mistakes.every(isMistake) && { mistakes }),
      ...(payload !== undefined && { payload: payload as JsonValue }),
    };
  } catch {
    // The fault is right without its details.
    return {};
  }
}

const isTexts = (value: unknown): value is Record<string, string> =>
  typeof value === "object" && value !== null && Object.values(value).every((one) => typeof one === "string");

function isMistake(value: unknown): value is Mistake {
  if (typeof value !== "object" || value === null) return false;
  const { path, message } = value as Readonly<Record<string, unknown>>;
  return typeof message === "string" && Array.isArray(path) && path.every((one) => typeof one === "string");
}
