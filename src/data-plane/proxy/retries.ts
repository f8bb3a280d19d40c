import { lowerCase } from "../../base/http/field-name.ts";
import { retryAfterMs } from "../../core/outgoing/retry-after.ts";
import type { RetryRules } from "../../gen/latchkey/v1/provider_pb.ts";
import type { RelayFailure } from "../../relay/failure.ts";
import type { ResponseHead } from "../../relay/http1/response-head.ts";

/** The result of an attempt. */
export type AttemptResult =
  | { readonly head: ResponseHead; readonly failure?: never }
  | { readonly failure: RelayFailure; readonly head?: never };

interface RetryContext {
  readonly call: {
    readonly since: number;
    readonly proxied: { readonly method: string; readonly body: string };
    readonly options: { readonly retryOn: readonly number[] };
    readonly live: { readonly provider: { readonly proxy?: { readonly retry?: RetryRules | undefined } | undefined } };
  };
  readonly content: Uint8Array | undefined;
  readonly tried: number;
  readonly nowMs: number;
}

/** Counts from the first attempt; no retry begins later. */
const deadlineMs = 60_000;
const maxDelayMs = 30_000;
const firstDelayMs = 250;
const idempotent = new Set(["GET", "HEAD", "PUT", "DELETE", "OPTIONS"]);
const ofNetwork = new Set([
  ...["refused", "unreachable", "unknown_host", "connect_timeout", "answer_timeout", "closed"],
  "egress_proxy",
]);

/** Returns the milliseconds until the next attempt; undefined: no retry. */
export function retryDelayMs(result: AttemptResult, { call, content, tried, nowMs }: RetryContext): number | undefined {
  const { proxied, options, live, since } = call;
  // A streamed body is gone. A held body is sent again with any method, because the caller has proxied for retries.
  const canBeSentAgain =
    proxied.body === "none" ? idempotent.has(proxied.method) || content !== undefined : content !== undefined;
  if (!canBeSentAgain) return undefined;
  const rules = live.provider.proxy?.retry;
  if (result.failure !== undefined) {
    if (!ofNetwork.has(result.failure.kind)) return undefined;
  } else {
    const { status } = result.head;
    const isLimit = rules?.statuses.includes(status) === true && saysWait(result.head, rules);
    const isWorthIt = status === 429 || status >= 500 || options.retryOn.includes(status) || isLimit;
    if (!isWorthIt) return undefined;
  }
  const asksFor = result.head === undefined ? undefined : waitOf(result.head, rules, nowMs);
  const delayMs = asksFor ?? Math.min(maxDelayMs, firstDelayMs * 2 ** tried) * (0.5 + Math.random() / 2);
  return delayMs > maxDelayMs || performance.now() - since + delayMs > deadlineMs ? undefined : delayMs;
}

function waitOf(head: ResponseHead, rules: RetryRules | undefined, nowMs: number): number | undefined {
  const own = rules === undefined || !isUsedUp(head, rules) ? "" : rules.afterHeader;
  const ofProvider = own === "" ? undefined : retryAfterMs(fieldOf(head, own), rules?.afterUnit ?? "", nowMs);
  return ofProvider ?? retryAfterMs(fieldOf(head, "retry-after"), "", nowMs);
}

/** Returns whether a limit is reached; true if the provider does not tell how much is left. */
const isUsedUp = (head: ResponseHead, { remainingHeader }: RetryRules) =>
  remainingHeader === "" || fieldOf(head, remainingHeader) === "0";

/** Returns whether an ambiguous status means a rate limit: the limit is reached, or a time to wait is named. */
const saysWait = (head: ResponseHead, rules: RetryRules) =>
  isUsedUp(head, rules) || fieldOf(head, "retry-after") !== undefined;

function fieldOf({ fields }: ResponseHead, name: string): string | undefined {
  const wanted = lowerCase(name);
  return fields.find((_, i) => i % 2 === 1 && lowerCase(fields[i - 1] ?? "") === wanted);
}
