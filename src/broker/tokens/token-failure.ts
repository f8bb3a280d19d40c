import { OperationProcessingError, UnsupportedOperationError } from "oauth4webapi";
import { CannotAttach } from "../../auth/attachment.ts";
import { kindOf, shownCode } from "../../auth/oauth2/token-failures.ts";
import { TokenFailure, type TokenFailureKind } from "../../auth/oauth2/tokens.ts";
import { RequestFailed, type SmallAnswer } from "../../base/small-requests.ts";
import { UnboundHost } from "../../core/outgoing/filled-url.ts";
import { retryAfterMs } from "../../core/outgoing/retry-after.ts";
import { looksRandom } from "../../core/secrets/redaction.ts";

/** Failures that last until someone fixes them: an address that the operator's rules forbid, and an invalid request. */
const forGood = ["address_forbidden", "unsendable"];

/** Converts an error thrown before, or in place of, a response. Other errors are returned unchanged, as defects. */
export function unanswered(error: unknown, what: string): unknown {
  if (error instanceof CannotAttach || error instanceof UnboundHost) {
    const code = error instanceof UnboundHost ? "address_unbound" : "client_unusable";
    return new TokenFailure({ kind: "misconfigured", code, retryAfterMs: undefined }, error.message, { cause: error });
  }
  // Thrown by the library for a key that is too short or of an unsupported kind. The cause is dropped because it
  // contains sent values.
  if (error instanceof UnsupportedOperationError || error instanceof OperationProcessingError) {
    return misconfigured("client_unusable", `the client cannot authenticate: ${error.message}`);
  }
  if (!(error instanceof RequestFailed)) return error;
  const kind = kindOfUnanswered(error);
  const message = `${what}: ${error.message}`;
  return new TokenFailure({ kind, code: error.reason, retryAfterMs: undefined }, message, { cause: error });
}

function kindOfUnanswered({ reason, mayHaveArrived, status }: RequestFailed): TokenFailureKind {
  if (forGood.includes(reason)) return "misconfigured";
  if (!mayHaveArrived) return "passing";
  // The provider began to reject the request; the rest of the response is unknown.
  if (status !== undefined && (status < 200 || status >= 300)) {
    return kindOf({ status, code: undefined, grant: "", rules: { deadGrantErrors: [], deadClientErrors: [] } });
  }
  return reason === "too_large" ? "unusable" : "uncertain";
}

interface RefusedTokenRequest {
  readonly what: string;
  readonly answer: SmallAnswer;
  readonly kind: TokenFailureKind;
  /** Error code as the provider sent it. */
  readonly code: string | undefined;
  /** Sent secrets: a code that equals or is part of one is never shown. */
  readonly secrets: readonly string[];
  readonly nowMs: number;
}

export function refused({ what, answer, kind, code, secrets, nowMs }: RefusedTokenRequest): TokenFailure {
  const word = shownCode(code, secrets);
  const shown = word === undefined || holdsToken(word) ? `http_${answer.status}` : word;
  const waitMs = retryAfterMs(answer.header("retry-after"), "seconds", nowMs);
  const { status } = answer;
  return new TokenFailure({ kind, code: shown, retryAfterMs: waitMs, status }, `${what} refused: ${shown}, ${status}`);
}

/** Detects tokens in a code. Providers know more secrets than were sent, such as webhook secrets and earlier tokens. */
const holdsToken = (word: string): boolean => word.split(/[_.:-]/).some(looksRandom);

export const misconfigured = (code: string, message: string): TokenFailure =>
  new TokenFailure({ kind: "misconfigured", code, retryAfterMs: undefined }, message);

export const unusable = (code: string, message: string): TokenFailure =>
  new TokenFailure({ kind: "unusable", code, retryAfterMs: undefined }, message);
