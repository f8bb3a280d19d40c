import { Code, ConnectError } from "@connectrpc/connect";
import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";

export type WatchState = "connecting" | "live" | "broken";

const firstPauseMs = 500;
const longestPauseMs = 15_000;
/** A stream without events sends nothing at first: one that has not failed within this time is open. */
const openWithinMs = 1_000;
/** Ends that another try cannot help. */
const finalCodes: readonly Code[] = [
  Code.Unauthenticated,
  Code.PermissionDenied,
  Code.InvalidArgument,
  Code.NotFound,
  Code.Unimplemented,
];

/**
 * Follows a stream while the page is shown; opens it again with growing pauses after it ended. `open` may resume from
 * what `onEvent` has seen. Pass `isOn: false` to pause.
 */
export function useWatch<T>(
  open: (signal: AbortSignal) => AsyncIterable<T>,
  onEvent: (event: T) => void,
  { isOn = true, dependencies = [] }: { readonly isOn?: boolean; readonly dependencies?: readonly unknown[] } = {},
): WatchState {
  const state = useSignal<WatchState>("connecting");
  const handlers = useRef({ open, onEvent });
  handlers.current = { open, onEvent };
  useEffect(() => {
    if (!isOn) return;
    const over = new AbortController();
    void follow(
      () => handlers.current.open(over.signal),
      (event: T) => handlers.current.onEvent(event),
      over.signal,
      (now) => {
        state.value = now;
      },
    );
    return () => over.abort();
  }, [isOn, ...dependencies]);
  return state.value;
}

async function follow<T>(
  open: () => AsyncIterable<T>,
  onEvent: (event: T) => void,
  over: AbortSignal,
  tell: (state: WatchState) => void,
): Promise<void> {
  let pauseMs = firstPauseMs;
  while (!over.aborted) {
    tell("connecting");
    const opened = setTimeout(() => {
      if (!over.aborted) tell("live");
    }, openWithinMs);
    try {
      for await (const event of open()) {
        if (over.aborted) return;
        tell("live");
        pauseMs = firstPauseMs;
        onEvent(event);
      }
    } catch (error) {
      if (over.aborted) return;
      if (finalCodes.includes(ConnectError.from(error).code)) return tell("broken");
    } finally {
      clearTimeout(opened);
    }
    if (over.aborted) return;
    tell("broken");
    await new Promise((resolve) => setTimeout(resolve, pauseMs * (0.75 + Math.random() / 2)));
    pauseMs = Math.min(longestPauseMs, pauseMs * 2);
  }
}
