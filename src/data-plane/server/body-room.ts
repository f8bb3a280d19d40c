import { Fault } from "../../base/fault.ts";

/** Limits the memory for all bodies from the internet together: one large body is fine, a thousand at once are not. */
export interface BodyRoom {
  /** Throws `overloaded` when there is no more room: the sender retries later. */
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
