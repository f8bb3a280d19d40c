import { Fault } from "../../base/fault.ts";
import type { World } from "../../base/world.ts";
import type { StoredForward } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import type { Outbox } from "../deliveries/outbox/outbox.ts";
import { destinationKey } from "../deliveries/outbox/queued-forward.ts";

/** Bounds the waiting forwards: a webhook whose forwards have no room is refused, and its provider retries. */
export interface OutboxAdmission {
  /**
   * Reserves room for forwards until they are in the outbox. Throws `overloaded` if the outbox is too full. A
   * destination may use the whole limit if no forwards wait for others. Other destinations share a ninth of the limit
   * on top, and the fewer slots are left, the fewer each gets. A dead destination thus does not fill the outbox for the
   * others.
   */
  reserve(forwards: readonly StoredForward[]): void;
  /** Ends the reservation: the commit of these forwards has succeeded or failed. */
  release(forwards: readonly StoredForward[]): void;
  configure(limits: WebhookLimits): void;
}

export interface WebhookLimits {
  /**
   * Limit of waiting forwards for one destination; the limit for all is a ninth more. Beyond it, providers must retry.
   */
  readonly maxWaiting: number;
}

interface OutboxAdmissionOptions {
  readonly outbox: Outbox;
  readonly limits: WebhookLimits;
  readonly world: World;
}

/** Delay in `Retry-After`, for providers that respect it. */
const retryAfterSeconds = 30;

export function createOutboxAdmission({ outbox, world, ...options }: OutboxAdmissionOptions): OutboxAdmission {
  let { maxWaiting } = options.limits;
  /** Number of forwards that are being committed and are not in the outbox yet. */
  let reserved = 0;

  return {
    reserve(forwards) {
      const eachAtMost = 10 * maxWaiting - 9 * (outbox.size + reserved + forwards.length);
      // Forwards that are being committed may be for this destination too.
      const sizeAt = (destination: StoredForward) => outbox.sizeAt(destination) + reserved;
      const isRoomFor = (wanted: readonly StoredForward[]) =>
        wanted[0] === undefined || sizeAt(wanted[0]) + wanted.length <= eachAtMost;
      if (forwards.length < 2 ? isRoomFor(forwards) : Map.groupBy(forwards, destinationKey).values().every(isRoomFor)) {
        reserved += forwards.length;
        return;
      }
      world.metrics.notifications.series({ outcome: "overloaded" }).add();
      throw new Fault("overloaded", "too many webhooks wait for the application; try again later", {
        retryAfterSeconds,
      });
    },
    release(forwards) {
      reserved -= forwards.length;
    },
    configure(limits) {
      ({ maxWaiting } = limits);
    },
  };
}
