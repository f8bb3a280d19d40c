import type { IncomingHttpHeaders } from "node:http";
import type { EndpointName } from "./endpoints.ts";

/** What the sandbox saw. Numbers for ever, requests only the last few: it may run for weeks. */
export interface SandboxTraffic {
  /** Begins an entry; what became of the request is said when it is known. */
  arrived(request: SeenHead): SeenEntry;
  count(what: TallyName): void;
  shown(): SeenReport;
  reset(): void;
}

export interface SeenHead {
  readonly endpoint: EndpointName;
  readonly method: string;
  readonly target: string;
  readonly headers: IncomingHttpHeaders;
}

export interface SeenEntry {
  body(body: Buffer): void;
  /** The status, or what was done instead of answering. */
  outcome(outcome: string): void;
}

const tallies = [
  "codesExchanged",
  /** A code that came a second time: all that came of it was revoked. */
  "codesReused",
  "tokensIssued",
  "refreshes",
  /** A refresh token that had been replaced was used again: within its grace, or not. */
  "supersededInGrace",
  "supersededReused",
  "familiesRevoked",
  /** Refresh tokens that stopped working because there were too many. */
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
  /** Its beginning, as text. */
  readonly body: string;
  readonly outcome: string;
}

export interface SeenReport {
  readonly requests: Readonly<Partial<Record<EndpointName, number>>>;
  readonly tallies: Readonly<Record<TallyName, number>>;
  /** The last of each endpoint, the latest last. */
  readonly last: Readonly<Partial<Record<EndpointName, readonly SeenRequest[]>>>;
}

const keptRequests = 20;
const keptBodyBytes = 4_096;
const keptTargetLength = 2_048;

export function createSeen(now: () => number): SandboxTraffic {
  const requests = new Map<EndpointName, number>();
  const last = new Map<EndpointName, MutableOf<SeenRequest>[]>();
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
      // Object.fromEntries forgets the names; they are those of the table.
      tallies: Object.fromEntries(tallies.map((name) => [name, counted.get(name) ?? 0])) as Record<TallyName, number>,
      last: Object.fromEntries([...last].map(([endpoint, kept]) => [endpoint, kept.map((one) => ({ ...one }))])),
    }),
    reset() {
      requests.clear();
      last.clear();
      counted.clear();
    },
  };
}

type MutableOf<T> = { -readonly [K in keyof T]: T[K] };
