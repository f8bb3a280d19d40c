import { Fault } from "../../../base/fault.ts";
import { starterOf } from "../../../broker/setup/caller.ts";
import type { EndpointCaller } from "../endpoint-caller.ts";

/** Counts what a caller has opened. Returns a function that ends it. Throws if there is too much. */
export type EnterSlot = (caller: EndpointCaller) => () => void;

interface SlotLimits {
  /** In this process. */
  readonly most: number;
  readonly mostOfCaller: number;
  /** What is counted, in the plural. */
  readonly of: string;
}

export function createCallerSlots({ most, mostOfCaller, of }: SlotLimits): EnterSlot {
  const open = new Map<string, number>();
  let all = 0;

  return ({ environment, caller }) => {
    const name = JSON.stringify([environment, starterOf(caller)]);
    const own = open.get(name) ?? 0;
    if (own >= mostOfCaller || all >= most) {
      const limit = own >= mostOfCaller ? `${mostOfCaller} ${of} of a caller` : `${most} ${of}`;
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
