import type { World } from "../../base/world.ts";
import { currentState } from "../../core/approvals/approval-state.ts";
import { type Approval, ApprovalState } from "../../gen/latchkey/v1/approval_pb.ts";
import type { ApprovalCollections } from "./approval-collections.ts";
import type { ApprovalWatch } from "./approval-watch.ts";

/** How long a request waits for an answer. */
export interface AnswerWait {
  readonly untilMs: number;
  readonly signal: AbortSignal;
}

interface AnswerSources extends Pick<ApprovalCollections, "approvals"> {
  readonly watch: ApprovalWatch;
  readonly world: Pick<World, "now">;
}

/** Resolves once an approval is answered or the wait is over, with the approval as it is then. */
export async function waitForAnswer(
  { approvals, watch, world }: AnswerSources,
  approval: Approval,
  { untilMs, signal }: AnswerWait,
): Promise<Approval> {
  const { environment, id, expiresAt } = approval;
  let current = approval;
  const endMs = Math.min(untilMs, expiresAt === undefined ? 0 : Number(expiresAt.seconds) * 1_000 + 1_000);
  for (;;) {
    // Listens before it reads: an answer in between would be missed otherwise.
    const change = nextChange(watch, id, signal);
    try {
      const stored = await approvals.get(environment, id);
      // A request that is prepared again says what has become of its connection.
      if (stored === undefined)
        return { ...current, state: ApprovalState.EXPIRED, reason: "its connection was deleted" };
      current = stored.value;
      const leftMs = endMs - world.now();
      const isOver = leftMs <= 0 || signal.aborted || watch.isReleased;
      if (isOver || currentState(current, world.now()) !== ApprovalState.WAITING) return current;
      await change.within(leftMs);
    } finally {
      change.stop();
    }
  }
}

/** Waits for the next change of an approval, or for the end of its caller. */
function nextChange(watch: ApprovalWatch, id: string, signal: AbortSignal) {
  const { promise, resolve } = Promise.withResolvers<void>();
  const wake = () => resolve();
  const stop = watch.onChange(id, wake);
  signal.addEventListener("abort", wake, { once: true });
  let timer: NodeJS.Timeout | undefined;
  return {
    within(ms: number): Promise<void> {
      timer = setTimeout(wake, ms);
      return promise;
    },
    stop(): void {
      clearTimeout(timer);
      stop();
      signal.removeEventListener("abort", wake);
    },
  };
}
