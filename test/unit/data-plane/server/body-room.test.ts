import { expect, it } from "vitest";
import { createBodyRoom } from "../../../../src/data-plane/server/body-room.ts";

it("lends what is free, refuses the rest, and lends again what was returned", () => {
  const room = createBodyRoom(100);
  room.take(60);
  room.take(40);
  expect(() => room.take(1)).toThrow("too many bytes of request bodies");
  room.give(40);
  room.take(40);
});
