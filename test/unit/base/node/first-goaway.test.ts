import { expect, it } from "vitest";
import { canWriteFirstGoaway } from "../../../../src/base/node/first-goaway.ts";

it("finds out at start that a GOAWAY can be written between two frames of a session", async () => {
  expect(await canWriteFirstGoaway()).toBe(true);
});
