import { type Timestamp, timestampFromMs } from "@bufbuild/protobuf/wkt";

let last: Readonly<{ ms: number; seconds: bigint; nanos: number }> = { ms: 0, seconds: 0n, nanos: 0 };

/** The same as `timestampFromMs`, for the current time, which thousands of messages ask for within a millisecond. */
export function timestampNow(ms: number): Timestamp {
  if (ms !== last.ms) {
    const { seconds, nanos } = timestampFromMs(ms);
    last = { ms, seconds, nanos };
  }
  return { $typeName: "google.protobuf.Timestamp", seconds: last.seconds, nanos: last.nanos };
}
