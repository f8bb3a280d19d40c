import { isMessage } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { signal, useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { WatchMarker_Kind, WatchMarkerSchema } from "../../gen/latchkey/v1/watch_pb.ts";

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
 * Whether the page has been in the background for a moment. Browsers allow six connections to a host over HTTP/1.1, so
 * such a page keeps none.
 */
const isAway = signal(false);
const awayAfterMs = 5_000;
let leaving: ReturnType<typeof setTimeout> | undefined;
document.addEventListener("visibilitychange", () => {
  clearTimeout(leaving);
  if (document.visibilityState === "visible") isAway.value = false;
  else leaving = setTimeout(() => (isAway.value = true), awayAfterMs);
});

interface FollowedStreamOptions {
  readonly isOn?: boolean;
  readonly dependencies?: readonly unknown[];
  /** Called when the stream is open again after it ended: what happened in between may be missing. */
  readonly onReopen?: () => void;
}

/**
 * Follows a stream while the page is shown; opens it again with growing pauses after it ended. `open` may resume from
 * what `onEvent` has seen. Pass `isOn: false` to pause.
 */
export function useWatch<T>(
  open: (signal: AbortSignal) => AsyncIterable<T>,
  onEvent: (event: T) => void,
  { isOn = true, dependencies = [], onReopen = () => {} }: FollowedStreamOptions = {},
): WatchState {
  const state = useSignal<WatchState>("connecting");
  const handlers = useRef({ open, onEvent, onReopen });
  handlers.current = { open, onEvent, onReopen };
  /** What the stream was about when it was open last. */
  const openedFor = useRef<readonly unknown[] | undefined>(undefined);
  const isFollowing = isOn && !isAway.value;
  useEffect(() => {
    if (!isFollowing) return;
    const over = new AbortController();
    void follow(
      () => handlers.current.open(over.signal),
      (event: T) => handlers.current.onEvent(event),
      over.signal,
      (now) => {
        const isOpened = now === "live" && state.peek() !== "live";
        state.value = now;
        if (!isOpened) return;
        const before = openedFor.current;
        openedFor.current = dependencies;
        if (before?.every((one, i) => one === dependencies[i])) handlers.current.onReopen();
      },
    );
    return () => {
      over.abort();
      state.value = "connecting";
    };
  }, [isFollowing, ...dependencies]);
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

interface WatchEvent {
  readonly case: string | undefined;
  readonly value?: unknown;
}

/** Whether a stream of changes has begun: what happened before is read from the list. */
export const isBeginning = ({ value }: WatchEvent): boolean =>
  isMessage(value, WatchMarkerSchema) && value.kind === WatchMarker_Kind.RESUMED;
