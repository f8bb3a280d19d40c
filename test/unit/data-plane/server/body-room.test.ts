import { expect, it } from "vitest";
import { createBodyRoom } from "../../../../src/data-plane/server/body-room.ts";

it("gives as much as there is, refuses the rest, and gives again what came back", () => {
  const room = createBodyRoom(100);
  room.take(60);
  room.take(40);
  expect(() => room.take(1)).toThrow("too many bytes of request bodies");
  room.give(40);
  room.take(40);
});
