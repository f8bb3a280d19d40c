import { create } from "@bufbuild/protobuf";
import type { HandlerContext } from "@connectrpc/connect";
import type { TailStep } from "../../broker/stored/tails.ts";
import type { FeedRequest, FeedStep } from "../../broker/stored/watch-feed.ts";
import { WatchGapSchema, WatchMarker_Kind, WatchMarkerSchema } from "../../gen/latchkey/v1/watch_pb.ts";
import { readerKey } from "./slow-readers.ts";

const kinds = {
  snapshot_begin: WatchMarker_Kind.SNAPSHOT_BEGIN,
  snapshot_end: WatchMarker_Kind.SNAPSHOT_END,
  resumed: WatchMarker_Kind.RESUMED,
  progress: WatchMarker_Kind.PROGRESS,
} as const;

export const markerOf = ({ kind, revision }: Extract<FeedStep<never>, { readonly kind: keyof typeof kinds }>) => ({
  kind: kinds[kind],
  revision: BigInt(revision),
});

/** Returns a step that is no object: the beginning, a sign of life, or a gap. */
export const pauseOf = (step: Exclude<TailStep<never>, { readonly kind: "put" }>) =>
  step.kind === "gap"
    ? { case: "gap" as const, value: create(WatchGapSchema, { missed: BigInt(step.missed) }) }
    : { case: "marker" as const, value: create(WatchMarkerSchema, markerOf(step)) };

/** Returns how long a client watches, and how it is treated when it falls behind. */
export const watcherOf = ({ signal, values }: HandlerContext): Pick<FeedRequest, "signal" | "onOverrun"> => ({
  signal,
  onOverrun: () => values.get(readerKey)?.hurry(),
});
