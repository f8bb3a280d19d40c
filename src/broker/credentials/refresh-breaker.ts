import type { TokenFailureKind } from "../../auth/oauth2/tokens.ts";
import { isAhead } from "../connections/refresh-bookkeeping.ts";

/**
 * What the connections of one integration have in common: a client that the provider refuses, and a token endpoint
 * that is down. Learned by a few, it is not asked again by all of them.
 */
export interface RefreshBreaker {
  /** Undefined: ask. Otherwise whoever asks is told what the last one learned. */
  closedUntil(key: string, nowMs: number): BreakerState | undefined;
  /** Just before it is asked. When the time is over, one goes and looks, and the others wait until that one leaves. */
  enter(key: string, nowMs: number): { readonly closed: BreakerState } | { readonly leave: () => void };
  noteFailure(key: string, failed: TokenRequestFailure): void;
  noteSuccess(key: string): void;
  /** Whatever was learned may be wrong now. */
  forget(key: string): void;
  /** How many integrations are left alone now, by reason. */
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
  /** From 0 up to 1. */
  readonly random: number;
}

interface BreakerRecord extends BreakerState {
  readonly sinceMs: number;
  readonly inARow: number;
  /** Somebody has been let through to see. */
  isProbed: boolean;
}

/** So many in a row, and it is not the connection. */
const manyInARow = 5;
const firstMs = 5_000;
const maxMs = 300_000;
const maxKept = 10_000;

export function createRefreshBreaker(): RefreshBreaker {
  const learned = new Map<string, BreakerRecord>();

  const isClosed = ({ reason, inARow }: BreakerRecord) => reason === "client" || inARow >= manyInARow;

  function closedUntil(key: string, nowMs: number): BreakerState | undefined {
    const known = learned.get(key);
    // A clock that was turned back would keep it closed for as long.
    if (known === undefined || !isClosed(known) || isAhead(known.sinceMs, nowMs)) return undefined;
    if (known.untilMs > nowMs) return known;
    // Until the one that looks is back, the others are told what is known.
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
      // It may have learned nothing, and somebody else must be let through then.
      return {
        leave: () => {
          known.isProbed = false;
        },
      };
    },
    noteFailure(key, { kind, code, retryAfterMs = 0, nowMs, random }) {
      const reason = kind === "client_refused" || kind === "misconfigured" ? "client" : "endpoint";
      if (kind === "grant_dead") {
        // It was asked, and has answered: the endpoint and the client are well.
        learned.delete(key);
        return;
      }
      const known = learned.get(key);
      const isOfTheSame = known?.reason === reason && isClosed(known) && known.untilMs > nowMs;
      if (known !== undefined && isOfTheSame && !isAhead(known.sinceMs, nowMs)) {
        // It was on its way when this was learned: of a hundred that failed at once, each is no further failure.
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
