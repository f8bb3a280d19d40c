import { TokenFailure } from "../../../auth/oauth2/tokens.ts";
import { Fault } from "../../../base/fault.ts";
import type { World } from "../../../base/world.ts";
import { UnboundHost } from "../../../core/outgoing/filled-url.ts";
import { faultOfStore } from "../../stored/store-fault.ts";
import { type CallbackAnswer, isDenial } from "./callback.ts";

/** The reason why no connection was made, as metrics name it. */
export type FailureReason =
  | "denied"
  | "expired"
  | "other_browser"
  | "context_mismatch"
  | "issuer_mismatch"
  | "signature"
  | "malformed_answer"
  | "id_token"
  | "provider_error"
  | "session_over"
  | "token_refused"
  | "provider_unavailable"
  | "misconfigured"
  | "refused";

/** The reason why an authorization brought no connection, with a sentence for its end user. */
export class AuthorizationFailure extends Error {
  override readonly name = "Failed";
  readonly by: FailureReason;
  /** A code, for the log. */
  readonly reason: string | undefined;

  constructor(by: FailureReason, message: string, reason?: string) {
    super(message);
    this.by = by;
    this.reason = reason;
  }
}

export const notAccepted = (code?: string) =>
  new AuthorizationFailure("refused", "The provider does not accept these credentials. Nothing was stored.", code);

/**
 * Throws the provider's error, if the response has one. Never shows its error text: anyone can put text into a link.
 */
export function refusedOr(answer: CallbackAnswer): CallbackAnswer {
  const { error } = answer;
  if (error === undefined) return answer;
  if (isDenial(error)) throw new AuthorizationFailure("denied", "Access was not allowed.", "denied");
  if (/^[\x21-\x7e]{1,64}$/.test(error))
    throw new AuthorizationFailure("provider_error", `The provider refused: ${error}.`, error);
  throw new AuthorizationFailure("provider_error", "The provider refused: an unreadable error.", "unreadable_error");
}

interface FailureLogContext {
  readonly world: World;
  /** The ID of the log that describes the failure. */
  readonly logId: string;
}

/** Converts any error after the authorization was identified. Unexpected errors are found in the log. */
export function failureOf(error: unknown, { world, logId }: FailureLogContext): AuthorizationFailure {
  if (error instanceof AuthorizationFailure) return error;
  if (error instanceof TokenFailure) return failedBy(error);
  const fault = error instanceof UnboundHost ? new Fault("connection_unusable", error.message) : faultOfStore(error);
  if (fault.code === "integration_misconfigured") {
    return new AuthorizationFailure("misconfigured", sentence(fault.message), fault.code);
  }
  if (fault.code !== "internal") return new AuthorizationFailure("refused", sentence(fault.message), fault.code);
  world.metrics.unhandled.inc();
  world.log.error("unexpected error; authorization failed", { log_id: logId, err: fault.cause });
  return new AuthorizationFailure("refused", `Something went wrong here. See the log ${logId}.`, "internal");
}

function failedBy({ kind, code }: TokenFailure): AuthorizationFailure {
  switch (kind) {
    case "grant_dead":
      return new AuthorizationFailure(
        "token_refused",
        "The provider did not accept what it had just issued. Begin again.",
        code,
      );
    case "client_refused":
    case "misconfigured":
      return new AuthorizationFailure(
        "misconfigured",
        "The provider does not accept this application. Tell the operator of the application.",
        code,
      );
    case "unusable":
      if (code === "id_token_unverified") return unavailable(code);
      if (code.startsWith("id_token_")) {
        return new AuthorizationFailure(
          "id_token",
          "The provider's id_token, which says who you are, is not valid.",
          code,
        );
      }
      return new AuthorizationFailure("provider_error", "The provider sent an unusable answer.", code);
    default:
      return unavailable(code);
  }
}

const unavailable = (code: string) =>
  new AuthorizationFailure("provider_unavailable", "The provider could not be reached. Begin again in a moment.", code);

export const codeOf = (by: FailureReason) =>
  by === "misconfigured"
    ? "integration_misconfigured"
    : by === "provider_unavailable"
      ? "provider_unreachable"
      : "authorization_failed";

/**
 * The error, as the caller sees it, that keeps an end user from going to the provider. Undefined: only the end user can
 * fix the error, such as a field filled in wrongly.
 */
export function refusalOf(error: unknown): Fault | undefined {
  if (error instanceof UnboundHost) {
    return new Fault("connection_unusable", `the connection cannot be used: ${error.message}`, { cause: error });
  }
  if (error instanceof TokenFailure) {
    const { by, message } = failedBy(error);
    return new Fault(codeOf(by), message, { cause: error });
  }
  return error instanceof Fault && error.code === "integration_misconfigured" ? error : undefined;
}

const sentence = (message: string): string => `${message.charAt(0).toUpperCase()}${message.slice(1)}.`;
