import type { FeedStep } from "../broker/feed.ts";
import { WatchMarker_Kind } from "../gen/latchkey/v1/watch_pb.ts";

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
