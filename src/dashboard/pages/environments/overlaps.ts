import { type Duration, durationFromMs } from "@bufbuild/protobuf/wkt";

/** How long an old secret may work beside the new one. */
export const overlaps = [
  ["24", "24 hours"],
  ["1", "1 hour"],
  ["168", "7 days"],
  ["720", "30 days"],
  ["0", "Not at all: end it now"],
] as const;

export const defaultOverlap = "24";
const hourMs = 3_600_000;

export const overlapOf = (hours: string): Duration => durationFromMs(Number(hours) * hourMs);
