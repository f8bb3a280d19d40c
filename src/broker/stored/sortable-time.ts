import { type Timestamp, timestampMs } from "@bufbuild/protobuf/wkt";

/** A time as text that sorts as it does; what lies before 1970 is over in any case. */
export const sortable = (ms: number): string => String(Math.max(0, Math.trunc(ms))).padStart(16, "0");

/** When a record was made. */
export const bornAt = (at: Timestamp | undefined): string => sortable(at === undefined ? 0 : timestampMs(at));
