import { type Timestamp, timestampDate } from "@bufbuild/protobuf/wkt";

/** Formats a time for a table, to the second: `2026-08-01T12:00:00Z`; empty if there is none. */
export const moment = (at: Timestamp | undefined): string =>
  at === undefined
    ? ""
    : timestampDate(at)
        .toISOString()
        .replace(/\.\d+Z$/, "Z");
