import type { World } from "../../base/world.ts";
import { createRecentRequests, type RecentRequests } from "./recent-requests.ts";
import { createTrafficCounts, type TrafficCounts } from "./traffic-counts.ts";

/** What went through the proxy of this process. Nothing of it is stored. */
export interface Traffic {
  readonly counts: TrafficCounts;
  readonly recent: RecentRequests;
}

/** How many requests are kept. */
const keptRequests = 1_000;

/** `keepsRequests`: not only counts are kept, but also the last requests. */
export const openTraffic = ({ world, keepsRequests }: { world: World; keepsRequests: boolean }): Traffic => ({
  counts: createTrafficCounts(world),
  recent: createRecentRequests({ size: keepsRequests ? keptRequests : 0, now: world.now }),
});
