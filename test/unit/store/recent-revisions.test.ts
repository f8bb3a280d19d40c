import { expect, it } from "vitest";
import { createRecentRevisions } from "../../../src/store/recent-revisions.ts";

const value = new Uint8Array();

it("knows the revisions of keys that a commit depended on, and of no others", () => {
  const recent = createRecentRevisions();
  recent.changed(
    [
      { key: "made", value, expect: 0 },
      { key: "gone", value: undefined, expect: 3 },
      { key: "written", value },
    ],
    7,
  );
  expect([recent.of("made"), recent.of("gone"), recent.of("written")]).toEqual([7, 0, undefined]);
});

it("sees every change to its keys, also one without conditions", () => {
  const recent = createRecentRevisions();
  recent.changed([{ key: "k", value, expect: 0 }], 1);
  recent.changed([{ key: "k", value }], 2);
  expect(recent.of("k")).toBe(2);
  for (let i = 0; i < 600; i += 1) recent.changed([{ key: `other-${i}`, value, expect: 0 }], 3);
  recent.changed([{ key: "k", value: undefined }], 4);
  expect(recent.of("k")).toBe(0);
});

it("forgets the oldest, and everything after an uncertain write", () => {
  const recent = createRecentRevisions();
  for (let i = 0; i < 5_000; i += 1) recent.changed([{ key: `k${i}`, value, expect: 0 }], i);
  expect(recent.of("k0")).toBeUndefined();
  expect(recent.of("k4999")).toBe(4_999);
  recent.clear();
  expect(recent.of("k4999")).toBeUndefined();
});
