import { type Timestamp, timestampFromMs } from "@bufbuild/protobuf/wkt";
import { useMemo } from "preact/hooks";

/** Choices of a filter by age: the value in the address, and its name. */
export const ages: readonly (readonly [value: string, name: string])[] = [
  ["15min", "last 15 min"],
  ["1h", "last hour"],
  ["24h", "last 24 h"],
  ["7d", "last 7 days"],
];

const unitMs: Readonly<Record<string, number>> = { min: 60_000, h: 3_600_000, d: 86_400_000 };

/** Returns the beginning of the chosen age. It stays the same while a person pages through the list. */
export function useSince(age: string): Timestamp | undefined {
  return useMemo(() => {
    const [, count = "", unit = ""] = /^(\d{1,4})(min|h|d)$/.exec(age) ?? [];
    const ms = unitMs[unit];
    return ms === undefined ? undefined : timestampFromMs(Date.now() - Number(count) * ms);
  }, [age]);
}
