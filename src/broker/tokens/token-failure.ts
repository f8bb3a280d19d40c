import { OperationProcessingError, UnsupportedOperationError } from "oauth4webapi";
import { CannotAttach } from "../../auth/attachment.ts";
import { kindOf, shownCode } from "../../auth/oauth2/token-failures.ts";
import { TokenFailure, type TokenFailureKind } from "../../auth/oauth2/tokens.ts";
import { RequestFailed, type SmallAnswer } from "../../base/small-requests.ts";
import { UnboundHost } from "../../core/outgoing/filled-url.ts";
import { retryAfterMs } from "../../core/outgoing/retry-after.ts";
import { looksRandom } from "../../core/secrets/redaction.ts";

/** An address that the operator's rules forbid, and a request that is none: they stay so until somebody mends them. */
const forGood = ["address_forbidden", "unsendable"];

/** What was thrown before, or in place of, an answer. What is none of these goes through as it is: it is a defect. */
export function unanswered(error: unknown, what: string): unknown {
  if (error instanceof CannotAttach || error instanceof UnboundHost) {
    const code = error instanceof UnboundHost ? "address_unbound" : "client_unusable";
    return new TokenFailure({ kind: "misconfigured", code, retryAfterMs: undefined }, error.message, { cause: error });
  }
  // Of the library: a key that is too short, or of a kind that it does not sign with. Its causes hold what was sent.
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
  // It began to say no; what else it had to say is not known.
  if (status !== undefined && (status < 200 || status >= 300)) {
    return kindOf({ status, code: undefined, grant: "", rules: { deadGrantErrors: [], deadClientErrors: [] } });
  }
  return reason === "too_large" ? "unusable" : "uncertain";
}

interface RefusedTokenRequest {
  readonly what: string;
  readonly answer: SmallAnswer;
  readonly kind: TokenFailureKind;
  /** As the provider has it. */
  readonly code: string | undefined;
  /** What was sent: no code that is one of them, or a part of one, is repeated. */
  readonly secrets: readonly string[];
  readonly nowMs: number;
}

export function refused({ what, answer, kind, code, secrets, nowMs }: RefusedTokenRequest): TokenFailure {
  const word = shownCode(code, secrets);
  const shown = word === undefined || holdsToken(word) ? `http_${answer.status}` : word;
  const waitMs = retryAfterMs(answer.header("retry-after"), "seconds", nowMs);
  return new TokenFailure({ kind, code: shown, retryAfterMs: waitMs }, `${what} refused: ${shown}, ${answer.status}`);
}

/** Providers know more secrets than were sent: what signs their webhooks, tokens of before. */
const holdsToken = (word: string): boolean => word.split(/[_.:-]/).some(looksRandom);

export const misconfigured = (code: string, message: string): TokenFailure =>
  new TokenFailure({ kind: "misconfigured", code, retryAfterMs: undefined }, message);

export const unusable = (code: string, message: string): TokenFailure =>
  new TokenFailure({ kind: "unusable", code, retryAfterMs: undefined }, message);
