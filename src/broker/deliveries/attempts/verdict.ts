import { retryAfterMs } from "../../../core/outgoing/retry-after.ts";

/** Result of a delivery attempt. */
export type DeliveryVerdict =
  | { readonly kind: "delivered" }
  /** The attempt failed and is retried. */
  | { readonly kind: "failed"; readonly reason: string; readonly retryAfterMs: number | undefined }
  /** The application wants no more webhooks: this address stays paused until an operator resumes it. */
  | { readonly kind: "gone" }
  /** The forward can never be sent to this address. */
  | { readonly kind: "impossible"; readonly reason: string };

export interface DeliveryAnswer {
  /** 0 if no response came. */
  readonly status: number;
  /** The reason for a missing response, as a code. */
  readonly error: string;
  readonly retryAfter: string | undefined;
}

/** Errors of addresses that a retry cannot fix: the forward is rejected and not retried. */
const impossible = new Set(["address_forbidden", "unsendable"]);

/** Follows Standard Webhooks 1.0.0: 2xx is success, a redirect is not followed and fails, 410 ends the deliveries. */
export function verdictOf({ status, error, retryAfter }: DeliveryAnswer, nowMs: number): DeliveryVerdict {
  if (status >= 200 && status <= 299) return { kind: "delivered" };
  if (status === 410) return { kind: "gone" };
  if (status === 0 && impossible.has(error)) return { kind: "impossible", reason: error };
  const reason = status === 0 ? error : `status_${status}`;
  return { kind: "failed", reason, retryAfterMs: retryAfterMs(retryAfter, "", nowMs) };
}
