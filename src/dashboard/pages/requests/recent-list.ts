import { useSignal } from "@preact/signals";
import { useRef } from "preact/hooks";
import type { RecentRequest, RequestFilter } from "../../../gen/latchkey/v1/traffic_pb.ts";
import { useWatch, type WatchState } from "../../data/watch.ts";
import { traffic } from "../../state/clients.ts";

type Conditions = Omit<RequestFilter, "$typeName" | "$unknown">;

/** The requests of this replica as they end, newest first. */
export interface RecentList {
  /** Undefined until the watch has begun. */
  readonly rows: readonly RecentRequest[] | undefined;
  /** Requests that came while the person read: `take` shows them. */
  readonly waiting: number;
  /** Requests that came too fast to be shown. */
  readonly skipped: number;
  readonly state: WatchState;
  take(): void;
}

const mostRows = 500;
const firstRows = 200;
/** A person reads no more. Sending all of them would slow down the requests themselves. */
const maxPerSecond = 20;
/** Below the first rows, new ones would move what is read. */
const topPixels = 120;

export function useRecentList(
  { environment, filter }: { readonly environment: string; readonly filter: Conditions },
  { isOn, isReading }: { readonly isOn: boolean; readonly isReading: boolean },
): RecentList {
  const rows = useSignal<readonly RecentRequest[] | undefined>(undefined);
  const waiting = useSignal<readonly RecentRequest[]>([]);
  const skipped = useSignal(0);
  const isFirst = useRef(true);
  const state = useWatch(
    (signal) => {
      isFirst.current = true;
      return traffic.watchRequests({ environment, filter, recent: firstRows, maxPerSecond }, { signal });
    },
    ({ requests, missed }) => {
      const newest = requests.toReversed();
      const mayMove = !isReading && window.scrollY < topPixels;
      if (isFirst.current) {
        isFirst.current = false;
        rows.value = newest;
        waiting.value = [];
        skipped.value = 0;
      } else if (mayMove) rows.value = joined(newest, rows.peek() ?? []);
      else waiting.value = joined(newest, waiting.peek());
      skipped.value += Number(missed);
    },
    { isOn, dependencies: [environment, JSON.stringify(filter)] },
  );
  return {
    rows: rows.value,
    waiting: waiting.value.length,
    skipped: skipped.value,
    state,
    take() {
      rows.value = joined(waiting.peek(), rows.peek() ?? []);
      waiting.value = [];
    },
  };
}

const joined = (newer: readonly RecentRequest[], older: readonly RecentRequest[]): readonly RecentRequest[] =>
  [...newer, ...older].slice(0, mostRows);
