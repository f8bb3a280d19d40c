import type { RequestBudget } from "../broker/setup/caller.ts";
import type { DrawnRequests } from "../gen/latchkey/v1/edge_pb.ts";
import { faultOf } from "./broker-fault.ts";
import type { Questions } from "./questions.ts";

/** Requests of access sessions that this edge has drawn from brokers. */
export interface EdgeBudgets {
  /** Returns the budget of the session whose token has this hash. */
  of(digest: Uint8Array): RequestBudget;
}

interface DrawnSlice {
  left: number;
  drawing: Promise<void> | undefined;
  /** Until then, no broker is asked again. */
  emptyUntilMs: number;
}

/** For so long, a broker is not asked again for a budget that was used up. */
const emptyMs = 200;
/** Sessions with a budget, as many as an edge has keys. */
const maxSlices = 10_000;

export function createEdgeBudgets(questions: Pick<Questions<DrawnRequests>, "ask">): EdgeBudgets {
  /** Kept by session: what was drawn stays when the session is sent again. */
  const slices = new Map<string, DrawnSlice>();

  function sliceOf(name: string): DrawnSlice {
    const known = slices.get(name);
    if (known !== undefined) return known;
    const [oldest] = slices.keys();
    if (slices.size >= maxSlices && oldest !== undefined) slices.delete(oldest);
    const made = { left: 0, drawing: undefined, emptyUntilMs: 0 };
    slices.set(name, made);
    return made;
  }

  async function draw(digest: Uint8Array, slice: DrawnSlice): Promise<void> {
    try {
      const { count, fault } = await questions.ask({ kind: "requests", digest });
      if (fault !== undefined) throw faultOf(fault);
      slice.left += count;
      if (count === 0) slice.emptyUntilMs = performance.now() + emptyMs;
    } finally {
      slice.drawing = undefined;
    }
  }

  return {
    of(digest) {
      const slice = sliceOf(Buffer.from(digest).toString("base64"));
      const tryTake = (): boolean => {
        if (slice.left === 0) return false;
        slice.left -= 1;
        return true;
      };
      return {
        tryTake,
        async take() {
          for (;;) {
            if (tryTake()) return true;
            if (slice.drawing === undefined && slice.emptyUntilMs > performance.now()) return false;
            slice.drawing ??= draw(digest, slice);
            await slice.drawing;
          }
        },
      };
    },
  };
}
