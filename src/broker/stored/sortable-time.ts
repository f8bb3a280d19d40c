import { type Timestamp, timestampMs } from "@bufbuild/protobuf/wkt";
import { keyOf, under } from "../../store/keys.ts";

/** Formats a time as text that sorts by time. Times before 1970 become 0, because they are past in any case. */
export const sortable = (ms: number): string => String(Math.max(0, Math.trunc(ms))).padStart(16, "0");

/** Formats the creation time of a record. */
export const bornAt = (at: Timestamp | undefined): string => sortable(at === undefined ? 0 : timestampMs(at));

/** The range of time-ordered keys in a space, from the first up to and including the given time. */
export const keysUntil = (space: string, ms: number) => ({
  from: under(space).from,
  to: keyOf(space, sortable(ms + 1)),
});
