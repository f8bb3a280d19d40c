import type { IncomingHttpHeaders } from "node:http";
import type { SandboxEndpoint } from "./endpoints.ts";

/** What the sandbox saw: counters since the start, and only the last requests, since it may run for weeks. */
export interface SandboxTraffic {
  /** Starts an entry; its outcome is added once it is known. */
  arrived(request: SeenHead): SeenEntry;
  count(what: TallyName): void;
  shown(): SeenReport;
  reset(): void;
}

export interface SeenHead {
  readonly endpoint: SandboxEndpoint;
  readonly method: string;
  readonly target: string;
  readonly headers: IncomingHttpHeaders;
}

export interface SeenEntry {
  body(body: Buffer): void;
  /** The status, or the name of the misbehavior. */
  outcome(outcome: string): void;
}

const tallies = [
  "codesExchanged",
  /** Authorization codes used a second time: their grants were revoked. */
  "codesReused",
  "tokensIssued",
  "refreshes",
  /** Uses of a replaced refresh token, within its grace period and after it. */
  "supersededInGrace",
  "supersededReused",
  "familiesRevoked",
  /** Refresh tokens dropped above the limit. */
  "tokensOverflowed",
  "accessTokensRefused",
  "noncesReplayed",
  "signaturesRefused",
  "notificationsDelivered",
  "notificationsFailed",
  "notificationsDropped",
] as const;
export type TallyName = (typeof tallies)[number];

export interface SeenRequest {
  readonly at: string;
  readonly method: string;
  readonly target: string;
  readonly headers: IncomingHttpHeaders;
  /** The first bytes of the body, as text. */
  readonly body: string;
  readonly outcome: string;
}

export interface SeenReport {
  readonly requests: Readonly<Partial<Record<SandboxEndpoint, number>>>;
  readonly tallies: Readonly<Record<TallyName, number>>;
  /** The last requests of each endpoint, the latest one at the end. */
  readonly last: Readonly<Partial<Record<SandboxEndpoint, readonly SeenRequest[]>>>;
}

const keptRequests = 20;
const keptBodyBytes = 4_096;
const keptTargetLength = 2_048;

export function createSeen(now: () => number): SandboxTraffic {
  const requests = new Map<SandboxEndpoint, number>();
  const last = new Map<SandboxEndpoint, MutableOf<SeenRequest>[]>();
  const counted = new Map<TallyName, number>();

  return {
    arrived({ endpoint, method, target, headers }) {
      requests.set(endpoint, (requests.get(endpoint) ?? 0) + 1);
      const entry: MutableOf<SeenRequest> = {
        at: new Date(now()).toISOString(),
        method,
        target: target.slice(0, keptTargetLength),
        headers,
        body: "",
        outcome: "open",
      };
      const kept = last.get(endpoint) ?? [];
      kept.push(entry);
      if (kept.length > keptRequests) kept.shift();
      last.set(endpoint, kept);
      return {
        body(body) {
          entry.body = body.subarray(0, keptBodyBytes).toString("utf8");
        },
        outcome(outcome) {
          entry.outcome = outcome;
        },
      };
    },
    count(what) {
      counted.set(what, (counted.get(what) ?? 0) + 1);
    },
    shown: () => ({
      requests: Object.fromEntries(requests),
      // Object.fromEntries loses the key type; the keys come from the table.
      tallies: Object.fromEntries(tallies.map((name) => [name, counted.get(name) ?? 0])) as Record<TallyName, number>,
      last: Object.fromEntries(
        [...last].map(([endpoint, kept]) => [endpoint, kept.map((request) => ({ ...request }))]),
      ),
    }),
    reset() {
      requests.clear();
      last.clear();
      counted.clear();
    },
  };
}

type MutableOf<T> = { -readonly [K in keyof T]: T[K] };
