import { isMessage } from "@bufbuild/protobuf";
import { type WatchGap, WatchGapSchema } from "../../gen/latchkey/v1/watch_pb.ts";
import type { CommandSession } from "../session.ts";

interface LiveStep {
  readonly event: { readonly case: string | undefined; readonly value?: unknown };
}

interface LiveView<S extends LiveStep> {
  readonly steps: AsyncIterable<S>;
  /** What is shown, such as `logs`. */
  readonly what: string;
  /** Prints an object; returns undefined for a step that is none. */
  readonly show: (event: S["event"]) => Promise<void> | undefined;
}

/** Prints what a live view brings, until interrupted. */
export async function showLive<S extends LiveStep>(
  { output, terminal }: CommandSession,
  { steps, what, show }: LiveView<S>,
): Promise<void> {
  await output.note(`Following new ${what}; press Ctrl-C to stop.`);
  try {
    for await (const { event } of steps) {
      if (isMessage(event.value, WatchGapSchema)) await output.note(gapText(event.value, what));
      else await show(event);
    }
  } catch (error) {
    // An interrupt is the normal end.
    if (!terminal.signal.aborted) throw error;
  }
}

export const gapText = ({ missed }: WatchGap, what: string): string =>
  missed === 0n ? `some ${what} were left out` : `up to ${missed} ${what} were left out`;
