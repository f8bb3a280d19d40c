import { Fault } from "../../../base/fault.ts";
import type { ConnectionRef } from "../../../gen/latchkey/v1/connection_pb.ts";
import type { BreakerState } from "./refresh-breaker.ts";

/** The error for callers whose credentials could not be refreshed. */
export function unavailable(why: string, retryAfterSeconds: number): Fault {
  return new Fault("refresh_unavailable", `the credentials have expired and could not be refreshed: ${why}`, {
    retryAfterSeconds: Math.max(1, Math.ceil(retryAfterSeconds)),
  });
}

export const reauthorize = ({ id }: ConnectionRef, reason: string) =>
  new Fault("reauthorization_required", `the end user must authorize "${id}" again (${reason})`);

export const misconfigured = (code: string) =>
  new Fault("integration_misconfigured", `the provider refuses the integration's OAuth app (${code})`);

export const faultOfClosed = ({ reason, code, untilMs }: BreakerState, nowMs: number): Fault =>
  reason === "client"
    ? misconfigured(code)
    : unavailable(`the last refresh failed (${code})`, (untilMs - nowMs) / 1_000);
