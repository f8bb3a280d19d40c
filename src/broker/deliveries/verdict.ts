import { retryAfterMs } from "../../core/outgoing/retry-after.ts";

/** What came of an attempt to deliver. */
export type DeliveryVerdict =
  | { readonly kind: "delivered" }
  /** To be tried again. */
  | { readonly kind: "failed"; readonly reason: string; readonly retryAfterMs: number | undefined }
  /** The application wants no more: nothing is sent to this address until somebody says so. */
  | { readonly kind: "gone" }
  /** It can never be sent there. */
  | { readonly kind: "impossible"; readonly reason: string };

export interface DeliveryAnswer {
  /** 0: none came. */
  readonly status: number;
  /** Why none came, as a word. */
  readonly error: string;
  readonly retryAfter: string | undefined;
}

/** Addresses that will be no better in an hour: they are refused, and not tried. */
const impossible = new Set(["address_forbidden", "unsendable"]);

/** Standard Webhooks 1.0.0: 2xx is success, a redirect is not followed and fails, 410 ends it. */
export function verdictOf({ status, error, retryAfter }: DeliveryAnswer, nowMs: number): DeliveryVerdict {
  if (status >= 200 && status <= 299) return { kind: "delivered" };
  if (status === 410) return { kind: "gone" };
  if (status === 0 && impossible.has(error)) return { kind: "impossible", reason: error };
  const reason = status === 0 ? error : `status_${status}`;
  return { kind: "failed", reason, retryAfterMs: retryAfterMs(retryAfter, "", nowMs) };
}
