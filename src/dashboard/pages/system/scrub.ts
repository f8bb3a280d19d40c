import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import type { ScrubResponse } from "../../../gen/latchkey/v1/store_pb.ts";
import { store } from "../../state/clients.ts";
import { type CallFault, faultOf, isAborted } from "../../state/fault.ts";

/** A check of the store that runs as long as the page is open. */
export interface ScrubRun {
  readonly isRunning: boolean;
  readonly progress: ScrubResponse | undefined;
  readonly fault: CallFault | undefined;
  start(): void;
  stop(): void;
}

export function useScrub(onEnd: () => void): ScrubRun {
  const isRunning = useSignal(false);
  const progress = useSignal<ScrubResponse | undefined>(undefined);
  const fault = useSignal<CallFault | undefined>(undefined);
  const over = useRef<AbortController | undefined>(undefined);
  useEffect(() => () => over.current?.abort(), []);

  async function run(signal: AbortSignal): Promise<void> {
    try {
      for await (const step of store.scrub({}, { signal })) progress.value = step;
    } catch (error) {
      if (!signal.aborted && !isAborted(error)) fault.value = faultOf(error);
    } finally {
      isRunning.value = false;
      if (!signal.aborted) onEnd();
    }
  }

  return {
    isRunning: isRunning.value,
    progress: progress.value,
    fault: fault.value,
    start() {
      if (isRunning.peek()) return;
      isRunning.value = true;
      progress.value = undefined;
      fault.value = undefined;
      over.current = new AbortController();
      void run(over.current.signal);
    },
    stop() {
      over.current?.abort();
    },
  };
}
