import { TokenFailure } from "../../auth/oauth2/tokens.ts";
import { Fault } from "../../base/fault.ts";
import { RequestFailed } from "../../base/small-requests.ts";

/** Why a token could not be revoked now. */
export interface RevocationFailure {
  /** `away`: the provider did not process the request. `refused`: it did, or the request cannot be sent. */
  readonly kind: "away" | "refused";
  /** A code, never a value of the request. */
  readonly code: string;
  readonly retryAfterMs?: number | undefined;
}

/** Statuses of a provider that is overloaded or broken: the same request may succeed later. */
export const isBusy = (status: number): boolean => status >= 500 || [408, 425, 429].includes(status);

/** Reasons that last until an operator acts: an address that the operator's rules forbid, and an invalid request. */
const unsendable = ["address_forbidden", "unsendable"];

/** Returns the failure that an error stands for; undefined if the error is a defect. */
export function failureOf(error: unknown): RevocationFailure | undefined {
  if (error instanceof TokenFailure) {
    const { kind, code, retryAfterMs, status } = error;
    const isPassing = kind === "passing" || kind === "uncertain";
    const isAway = isPassing && (status === undefined || isBusy(status));
    return { kind: isAway ? "away" : "refused", code, retryAfterMs };
  }
  if (error instanceof RequestFailed) {
    return { kind: unsendable.includes(error.reason) ? "refused" : "away", code: error.reason };
  }
  // No valid request can be made: the description or the connection lacks something.
  return error instanceof Fault ? { kind: "refused", code: error.code } : undefined;
}
