import { Fault } from "../../../base/fault.ts";
import { starterOf } from "../../../broker/setup/caller.ts";
import type { EndpointCaller } from "../endpoint-caller.ts";

/** In this process. Each reads the store when records change. */
const most = 100;
const mostOfCaller = 10;

/** Counts a subscription. Returns a function that ends it. Throws if there are too many. */
export type EnterSubscription = (caller: EndpointCaller) => () => void;

export function createSubscriptionSlots(): EnterSubscription {
  const open = new Map<string, number>();
  let all = 0;

  return ({ environment, caller }) => {
    const name = JSON.stringify([environment, starterOf(caller)]);
    const own = open.get(name) ?? 0;
    if (own >= mostOfCaller || all >= most) {
      const limit = own >= mostOfCaller ? `${mostOfCaller} subscriptions of a caller` : `${most} subscriptions`;
      throw new Fault("too_many_requests", `at most ${limit} are open at once`);
    }
    all += 1;
    open.set(name, own + 1);
    return () => {
      all -= 1;
      const left = (open.get(name) ?? 1) - 1;
      if (left === 0) open.delete(name);
      else open.set(name, left);
    };
  };
}
