import { createHash } from "node:crypto";
import { expect, it } from "vitest";
import { createDigestSet } from "../../../../src/broker/records/digest-set.ts";

const digest = (i: number) => createHash("sha256").update(String(i)).digest().subarray(0, 16);

it("knows a hundred thousand digests and no others, in at most 16 bytes each", () => {
  const set = createDigestSet();
  const count = 100_000;
  let most = 0;
  for (let i = 0; i < count; i += 1) {
    set.add(digest(i));
    if (i > 10_000) most = Math.max(most, i % 1_000 === 0 ? set.bytes / set.count : 0);
  }
  for (let i = 0; i < count; i += 1) set.add(digest(i));
  expect(set.count).toBe(count);
  expect(most).toBeGreaterThan(8);
  expect(most).toBeLessThanOrEqual(16);
  const known = Array.from({ length: 2 * count }, (_, i) => set.has(digest(i)));
  expect(known.indexOf(false)).toBe(count);
  expect(known.lastIndexOf(true)).toBe(count - 1);
});

it("distinguishes digests in the same bucket, also one of zeros", () => {
  const set = createDigestSet();
  const zeros = new Uint8Array(16);
  expect(set.has(zeros)).toBe(false);
  set.add(zeros);
  expect(set.has(zeros)).toBe(true);
  for (let i = 0; i < 50; i += 1) set.add(Uint8Array.of(0, 0, 0, i, 0, 0, 0, 9));
  expect(set.count).toBe(51);
  expect(set.has(Uint8Array.of(0, 0, 0, 50, 0, 0, 0, 9))).toBe(false);
});
