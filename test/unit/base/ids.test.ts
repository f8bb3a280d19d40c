import { expect, it } from "vitest";
import { sequentialId } from "../../../src/base/ids.ts";

/** More than four digits can express. */
const many = 36 ** 4 + 1_000;

it("creates ids that sort by creation, however many in one millisecond, and when the clock is set back", () => {
  const [now, before] = [Date.now() + 3_600_000, Date.now()];
  let last = sequentialId(now);
  const { length } = last;
  let wrong = 0;
  for (let i = 0; i < many; i += 1) {
    const next = sequentialId(i % 2 === 0 ? now : before);
    if (next <= last || next.length !== length) wrong += 1;
    last = next;
  }
  expect(wrong).toBe(0);
  expect(sequentialId(now + 1_000) > last).toBe(true);
});
