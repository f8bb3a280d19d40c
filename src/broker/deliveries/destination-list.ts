import { create } from "@bufbuild/protobuf";
import { durationFromMs, timestampFromMs } from "@bufbuild/protobuf/wkt";
import type { World } from "../../base/world.ts";
import { type Destination, DestinationSchema } from "../../gen/latchkey/v1/webhook_pb.ts";
import type { DestinationHealth } from "./destination-health.ts";
import type { Destinations } from "./destinations.ts";
import type { Outbox } from "./outbox/outbox.ts";

interface DestinationListOptions {
  readonly outbox: Outbox;
  readonly destinations: Destinations;
  readonly health: DestinationHealth;
  readonly world: World;
}

/**
 * Lists an environment's destinations with their delivery status: its own addresses, and others that have waiting
 * forwards.
 */
export function destinationList(environment: string, options: DestinationListOptions): readonly Destination[] {
  const { outbox, destinations, health, world } = options;
  const waiting = new Map(destinations.urlsOf(environment).map((url) => [url, { pending: 0, oldestMs: world.now() }]));
  for (const one of outbox.all()) {
    if (one.environment !== environment) continue;
    const url = destinations.urlOf(one);
    // The address was removed: this forward stops waiting in a moment.
    if (url === "") continue;
    const { pending, oldestMs } = waiting.get(url) ?? { pending: 0, oldestMs: world.now() };
    waiting.set(url, { pending: pending + 1, oldestMs: Math.min(oldestMs, one.createdMs) });
  }
  return [...waiting]
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([url, { pending, oldestMs }]) => {
      const paused = destinations.pausedAt(environment, url);
      const failures = health.failuresOf(environment, url);
      const deliveredMs = health.lastDeliveredMs(environment, url);
      return create(DestinationSchema, {
        url,
        paused: paused !== undefined,
        pausedReason: paused?.pausedReason ?? "",
        pausedBy: paused?.pausedBy ?? "",
        pausedNote: paused?.pausedNote ?? "",
        ...(paused?.pausedAt && { pausedAt: paused.pausedAt }),
        failures: failures?.count ?? 0,
        lastFailure: failures?.reason ?? "",
        ...(failures && { lastFailedAt: timestampFromMs(failures.lastMs) }),
        pending: BigInt(pending),
        oldest: durationFromMs(pending === 0 ? 0 : Math.max(0, world.now() - oldestMs)),
        ...(deliveredMs !== undefined && { lastDeliveredAt: timestampFromMs(deliveredMs) }),
      });
    });
}
