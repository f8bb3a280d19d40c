import { Fault } from "../../base/fault.ts";

/** Memory for the bodies that strangers send, all together: a large one is fine, a thousand of them at once are not. */
export interface BodyRoom {
  /** Throws `overloaded` when there is no more: whoever sends is told to come again. */
  take(bytes: number): void;
  give(bytes: number): void;
}

export function createBodyRoom(maxBytes: number): BodyRoom {
  let taken = 0;
  return {
    take(bytes) {
      if (taken + bytes > maxBytes) {
        throw new Fault("overloaded", "too many bytes of request bodies in memory; try again later", {
          retryAfterSeconds: 5,
        });
      }
      taken += bytes;
    },
    give(bytes) {
      taken -= bytes;
    },
  };
}
