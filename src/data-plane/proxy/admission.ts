import { type Caller, requireConnectionWithin, requireRequestWithin, spendRequest } from "../../broker/setup/caller.ts";
import type { ConnectionRef } from "../../gen/latchkey/v1/connection_pb.ts";
import type { ProviderCall } from "./provider-call.ts";
import type { SessionStreams } from "./proxy-call.ts";
import { createSessionStreams } from "./session-streams.ts";

/**
 * Decides whether a request may be sent to a provider, for every way by which requests come: both lanes, WebSockets,
 * `SendRequest`. Its checks cost nothing for a caller that none of them concerns.
 */
export interface Admission {
  /** Throws if the caller may not use the connection. Called before the connection is looked up. */
  requireConnection(caller: Caller, ref: ConnectionRef): void;
  /** Throws if the call may not be sent. Called with each prepared call, also with one that gets new credentials. */
  requireRequest(call: AdmissibleCall): void;
  /** Counts an admitted call, without a promise if this process may. Rejects if the budget of its caller is used up. */
  spend(call: Pick<AdmissibleCall, "caller">): Promise<void> | undefined;
  /** Counts it only if that needs no promise; returns whether it did. */
  trySpend(caller: Caller): boolean;
  /** Cuts what is still open once a session has ended. */
  readonly streams: SessionStreams;
}

/** A call as it will be sent, and who sends it. */
export type AdmissibleCall = Pick<ProviderCall, "caller" | "live" | "proxied" | "host" | "basePath">;

export const createAdmission = (): Admission => ({
  requireConnection: requireConnectionWithin,
  requireRequest({ caller, proxied, host, basePath }) {
    if (caller.limits === undefined) return;
    const { method, path, rawHeaders } = proxied;
    requireRequestWithin(caller, { method, host, basePath, path, rawHeaders });
  },
  spend: ({ caller }) => (caller.accessSession === undefined ? undefined : spendRequest(caller)),
  trySpend: ({ accessSession }) => accessSession?.budget === undefined || accessSession.budget.tryTake(),
  streams: createSessionStreams(),
});
