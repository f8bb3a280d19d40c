import { Fault } from "../../../base/fault.ts";
import { RequestFailed } from "../../../base/small-requests.ts";
import type { StoredChannel } from "../../../gen/latchkey/stored/v1/stored_pb.ts";
import { jsonOf } from "../../credentials/provider-requests.ts";
import { authorizationNeeded } from "../channel-requests.ts";
import { requestedExpirationMs } from "../rules/rules.ts";
import { idOf } from "../rules/slot.ts";
import type { ChannelStop, ChannelWatch, SendChannelRequest, StopVerdict } from "./protocol.ts";
import { stopVerdict, type WatchVerdict, watchVerdict } from "./successive-answers.ts";

/** Requests to providers with successive channels. */
export interface SuccessiveRequests {
  watch(request: ChannelWatch, channel: StoredChannel, token: string): Promise<WatchVerdict | WatchNotSent>;
  /** Rejects like the request if it has no response. */
  stop(channel: ChannelStop): Promise<StopVerdict>;
}

export interface WatchNotSent {
  readonly kind: "unsent";
  readonly code: string;
  readonly fault: Fault;
}

interface SuccessiveRequestsOptions {
  readonly send: SendChannelRequest;
  readonly now: () => number;
}

/** Less than the time for which a record says `creating`. */
const watchWithinMs = 30_000;
const stopWithinMs = 15_000;

export const createSuccessiveRequests = ({ send, now }: SuccessiveRequestsOptions): SuccessiveRequests => ({
  async watch({ found, rule, address }, channel, token) {
    const { rules, watch, resource } = rule;
    if (watch.watch === undefined) throw new Error("the watchable resource has no watch request");
    const expirationMs = requestedExpirationMs(rules, channel.askedLifeMs, now());
    const expiration = expirationMs === undefined ? undefined : String(expirationMs);
    const values = { id: idOf(channel), address, token, expiration, resource };
    try {
      const answer = await send(found, { template: watch.watch, values, deadlineMs: watchWithinMs });
      return watchVerdict(rule, { answer, body: jsonOf(answer), nowMs: now() });
    } catch (error) {
      if (error instanceof RequestFailed) {
        return { kind: error.mayHaveArrived ? "unheard" : "put_off", code: error.reason };
      }
      if (!(error instanceof Fault)) throw error;
      const { code } = error;
      return code === authorizationNeeded ? { kind: "unsent", code, fault: error } : { kind: "refused", code };
    }
  },
  async stop({ found, id, resourceId, signal }) {
    const template = found.provider.channel?.stop;
    if (template === undefined) return { kind: "not_stopped", code: "unstoppable", isHopeless: true };
    const answer = await send(found, { template, values: { id, resourceId }, deadlineMs: stopWithinMs, signal });
    return stopVerdict({ answer, body: jsonOf(answer), nowMs: now() });
  },
});
