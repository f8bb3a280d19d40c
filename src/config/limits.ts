import type { UpstreamLimits } from "../relay/upstream.ts";
import type { DoorName } from "./doors.ts";
import type { ConfigFile } from "./file.ts";

export type { AccessSessionTimes } from "../broker/access-sessions/new-session.ts";
export type { UpstreamLimits } from "../relay/upstream.ts";
export { sessionTimesOf } from "./access/session-times.ts";
export { type McpListing, mcpListingOf } from "./mcp/mcp-listing.ts";

export interface SizeLimits {
  readonly jsonBodyBytes: number;
  /** Limits an incoming webhook. */
  readonly webhookBodyBytes: number;
  readonly rpcMessageBytes: number;
  readonly headBytes: number;
  readonly headLines: number;
  readonly pathBytes: number;
  /** Open connections of each door. */
  readonly connections: Readonly<Record<DoorName, number>>;
}

export const defaultLimits: SizeLimits = {
  jsonBodyBytes: 512 * 1024,
  rpcMessageBytes: 4 * 1024 * 1024,
  headBytes: 16 * 1024,
  headLines: 200,
  pathBytes: 8 * 1024,
  webhookBodyBytes: 5 * 1024 * 1024,
  connections: { data: 10_000, public: 2_000, control: 1_000, ops: 256, ui: 256, forwardProxy: 10_000 },
};

export function limitsOf({ limits = {} }: ConfigFile): SizeLimits {
  return {
    jsonBodyBytes: limits.json_body_bytes ?? defaultLimits.jsonBodyBytes,
    rpcMessageBytes: limits.rpc_message_bytes ?? defaultLimits.rpcMessageBytes,
    headBytes: limits.head_bytes ?? defaultLimits.headBytes,
    headLines: limits.head_lines ?? defaultLimits.headLines,
    pathBytes: limits.path_bytes ?? defaultLimits.pathBytes,
    webhookBodyBytes: limits.webhook_body_bytes ?? defaultLimits.webhookBodyBytes,
    connections: {
      data: limits.connections?.data ?? defaultLimits.connections.data,
      public: limits.connections?.public ?? defaultLimits.connections.public,
      control: limits.connections?.control ?? defaultLimits.connections.control,
      ops: limits.connections?.ops ?? defaultLimits.connections.ops,
      ui: limits.connections?.ui ?? defaultLimits.connections.ui,
      forwardProxy: limits.connections?.forward_proxy ?? defaultLimits.connections.forwardProxy,
    },
  };
}

export const defaultRelay: UpstreamLimits = {
  connectMs: 10_000,
  answerMs: 120_000,
  idleMs: 300_000,
  perOrigin: 1_024,
  waitingPerOrigin: 1_024,
};

export const relayOf = ({ proxy = {} }: ConfigFile): UpstreamLimits => ({
  connectMs: proxy.connect_ms ?? defaultRelay.connectMs,
  answerMs: proxy.answer_ms ?? defaultRelay.answerMs,
  idleMs: proxy.idle_ms ?? defaultRelay.idleMs,
  perOrigin: proxy.requests_per_host ?? defaultRelay.perOrigin,
  waitingPerOrigin: proxy.waiting_per_host ?? defaultRelay.waitingPerOrigin,
});
