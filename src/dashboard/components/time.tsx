import type { Timestamp } from "@bufbuild/protobuf/wkt";
import { exactTime, msOf, relativeTime } from "../data/format.ts";

/** A time as an age, with the exact one on hover. */
export function Time({ at, none = "–" }: { readonly at: Timestamp | number | undefined; readonly none?: string }) {
  const ms = typeof at === "number" ? at : msOf(at);
  if (ms === undefined) return <span class="quiet">{none}</span>;
  return (
    <time dateTime={new Date(ms).toISOString()} title={exactTime(ms)}>
      {relativeTime(ms)}
    </time>
  );
}
