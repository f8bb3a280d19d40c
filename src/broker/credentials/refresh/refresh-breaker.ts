import type { TokenFailureKind } from "../../../auth/oauth2/tokens.ts";
import { isAhead } from "../../connections/health/refresh-bookkeeping.ts";

/**
 * Circuit breaker for failures that all connections of an integration share: a client that the provider refuses, and a
 * token endpoint that is down. After a few failures, the other connections send no requests.
 */
export interface RefreshBreaker {
  /** Undefined: send the request. Otherwise callers get the last failure. */
  closedUntil(key: string, nowMs: number): BreakerState | undefined;
  /**
   * Called just before the request. After the wait, one probe is let through; others are refused until the probe
   * leaves.
   */
  enter(key: string, nowMs: number): { readonly closed: BreakerState } | { readonly leave: () => void };
  noteFailure(key: string, failed: TokenRequestFailure): void;
  noteSuccess(key: string): void;
  /** Resets the breaker, since the reason of the failures may be gone. */
  forget(key: string): void;
  /** Counts the integrations that are blocked now, by reason. */
  counts(nowMs: number): Readonly<Record<Reason, number>>;
}

type Reason = "client" | "endpoint";

export interface BreakerState {
  readonly untilMs: number;
  readonly reason: Reason;
  readonly code: string;
}

interface TokenRequestFailure {
  readonly kind: TokenFailureKind;
  readonly code: string;
  readonly retryAfterMs: number | undefined;
  readonly nowMs: number;
  /** At least 0 and below 1. */
  readonly random: number;
}

interface BreakerRecord extends BreakerState {
  readonly sinceMs: number;
  readonly inARow: number;
  /** A probe request is running. */
  isProbed: boolean;
}

/** This many failures in a row are not the fault of one connection. */
const manyInARow = 5;
const firstMs = 5_000;
const maxMs = 300_000;
const maxKept = 10_000;

export function createRefreshBreaker(): RefreshBreaker {
  const learned = new Map<string, BreakerRecord>();

  const isClosed = ({ reason, inARow }: BreakerRecord) => reason === "client" || inARow >= manyInARow;

  function closedUntil(key: string, nowMs: number): BreakerState | undefined {
    const known = learned.get(key);
    // A clock that was set back would otherwise block the integration for that long.
    if (known === undefined || !isClosed(known) || isAhead(known.sinceMs, nowMs)) return undefined;
    if (known.untilMs > nowMs) return known;
    // Until the probe returns, the others get the known failure.
    return known.isProbed ? { ...known, untilMs: nowMs + 1_000 } : undefined;
  }

  return {
    closedUntil,
    enter(key, nowMs) {
      const closed = closedUntil(key, nowMs);
      if (closed !== undefined) return { closed };
      const known = learned.get(key);
      if (known === undefined) return { leave: () => {} };
      known.isProbed = true;
      // The probe may have learned nothing; another one must then be let through.
      return {
        leave: () => {
          known.isProbed = false;
        },
      };
    },
    noteFailure(key, { kind, code, retryAfterMs = 0, nowMs, random }) {
      const reason = kind === "client_refused" || kind === "misconfigured" ? "client" : "endpoint";
      if (kind === "grant_dead") {
        // The provider has responded to the request: the endpoint and the client work.
        learned.delete(key);
        return;
      }
      const known = learned.get(key);
      const isOfTheSame = known?.reason === reason && isClosed(known) && known.untilMs > nowMs;
      if (known !== undefined && isOfTheSame && !isAhead(known.sinceMs, nowMs)) {
        // The request was already under way when the breaker opened. Of a hundred simultaneous failures, the rest do
        // not count as further ones.
        learned.set(key, { ...known, untilMs: Math.max(known.untilMs, nowMs + retryAfterMs) });
        return;
      }
      const inARow = Math.min((known?.inARow ?? 0) + 1, 1_000);
      const over = reason === "client" ? inARow - 1 : inARow - manyInARow;
      const wait = Math.min(maxMs, firstMs * 2 ** Math.max(0, Math.min(over, 10))) * (0.5 + random / 2);
      if (learned.size >= maxKept) learned.clear();
      const untilMs = nowMs + Math.max(wait, retryAfterMs);
      learned.set(key, { sinceMs: nowMs, untilMs, reason, code, inARow, isProbed: false });
    },
    noteSuccess: (key) => void learned.delete(key),
    forget: (key) => void learned.delete(key),
    counts(nowMs) {
      const all = { client: 0, endpoint: 0 };
      for (const { reason, untilMs, inARow } of learned.values()) {
        if (untilMs > nowMs && (reason === "client" || inARow >= manyInARow)) all[reason] += 1;
      }
      return all;
    },
  };
}
