import type { World } from "../../base/world.ts";
import type { Upstream } from "../../relay/upstream.ts";
import type { Admission } from "./admission.ts";
import type { CallerStreams } from "./caller-streams.ts";
import type { ProviderCalls } from "./provider-calls.ts";
import type { ProxyCall } from "./proxy-call.ts";
import type { ProxyCount } from "./proxy-count.ts";

/** Dependencies shared by all proxied requests. */
export interface ProxyServices {
  readonly calls: ProviderCalls;
  readonly upstream: Upstream;
  readonly world: World;
  readonly count: ProxyCount;
  readonly streams: Pick<CallerStreams, "follow">;
  readonly admission: Pick<Admission, "toolCheck" | "approvals" | "dashboard">;
  readonly fail: (call: Pick<ProxyCall, "isSettled" | "answerFault">, error: unknown) => void;
}
