import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import type { ConnectionCount } from "../../../gen/latchkey/v1/connection_pb.ts";
import { connections } from "../../state/clients.ts";

export interface ConnectionCounts {
  readonly counts: readonly ConnectionCount[];
  /** Connections counted so far, while a large store is still read. */
  readonly readSoFar: number | undefined;
  /** True once there was an answer. */
  readonly isKnown: boolean;
  /** Counts again soon: many changes make one call. */
  refresh(): void;
}

const againMs = 700;
const refreshMs = 1_500;

/** The counts of an environment; asked again until all connections are counted. */
export function useConnectionCounts(environment: string): ConnectionCounts {
  const counts = useSignal<readonly ConnectionCount[]>([]);
  const readSoFar = useSignal<number | undefined>(undefined);
  const isKnown = useSignal(false);
  const due = useSignal(0);
  const planned = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  useEffect(() => () => clearTimeout(planned.current), []);
  useEffect(() => {
    const over = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    async function count(): Promise<void> {
      try {
        const answer = await connections.countConnections({ environment }, { signal: over.signal });
        if (over.signal.aborted) return;
        counts.value = answer.counts;
        readSoFar.value = answer.isComplete ? undefined : (answer.readSoFar ?? 0);
        isKnown.value = true;
        if (!answer.isComplete) timer = setTimeout(() => void count(), againMs);
      } catch {
        // The list says why nothing can be read; the counts are only left out.
      }
    }
    void count();
    return () => {
      clearTimeout(timer);
      over.abort();
    };
  }, [environment, due.value]);
  return {
    counts: counts.value,
    readSoFar: readSoFar.value,
    isKnown: isKnown.value,
    refresh() {
      planned.current ??= setTimeout(() => {
        planned.current = undefined;
        due.value += 1;
      }, refreshMs);
    },
  };
}
