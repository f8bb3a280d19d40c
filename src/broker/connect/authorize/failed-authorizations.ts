import { Fault } from "../../../base/fault.ts";
import type { World } from "../../../base/world.ts";
import { createRedaction } from "../../../core/secrets/redaction.ts";
import type { ConnectionRef } from "../../../gen/latchkey/v1/connection_pb.ts";
import { IntegrationSecretsSchema } from "../../../gen/latchkey/v1/integration_pb.ts";
import type { Change } from "../../../store/contract.ts";
import type { Logs } from "../../audit/logs.ts";
import { secretValues } from "../../audit/secret-values.ts";
import type { Integrations } from "../../setup/integrations.ts";
import { type AuthorizationFailure, type FailureReason, failureOf, refusalOf } from "./failure.ts";

/**
 * Authorizations that brought no connection. Each failure is counted, logged by the process, and kept as a log of its
 * environment. The end user sees little; support staff find the details in the log.
 */
export interface FailedAuthorizations {
  /** Stores the log in a commit of its own. If the store refuses, the outcome is the same. */
  note(error: unknown, failing: AuthorizationAttempt): Promise<AuthorizationFailure>;
  /**
   * Handles an authorization that failed before the provider's page. A refusal is logged in the same way, and thrown as
   * the caller's error with the ID of the log. All other errors are rethrown.
   */
  refuse(error: unknown, failing: AuthorizationAttempt): Promise<never>;
  /** Returns changes for the caller's own commit. Nothing is counted or logged by the process before `tell`. */
  read(error: unknown, failing: AuthorizationAttempt): Promise<FailureRecord>;
}

/** The failed attempt. */
export interface AuthorizationAttempt {
  readonly environment: string;
  readonly integration: string;
  /** The connection to re-authorize, if any. */
  readonly existing: Pick<ConnectionRef, "id"> | undefined;
  /** The kind of credentials, as metrics name it. */
  readonly credentials: string;
  /** All secrets that occurred, except those of the integration. */
  readonly secrets: Iterable<string>;
}

/** A failure that is not reported yet. */
export interface FailureRecord {
  readonly failed: AuthorizationFailure;
  readonly logId: string;
  changes(): Change[];
  tell(): void;
}

interface FailedAuthorizationsOptions {
  readonly integrations: Integrations;
  readonly logs: Logs;
  readonly world: World;
}

/** Constant sentences: text from outside appears in the log only as a code. */
const sentences: { readonly [B in FailureReason]: string } = {
  denied: "the end user denied access",
  expired: "the code was not entered in time",
  other_browser: "the response came from another browser, or without its cookies",
  context_mismatch: "the response came to another redirect URI than requested",
  issuer_mismatch: "the response is from another issuer than the provider",
  malformed_answer: "the response repeats a parameter or has both a code and an error; ignored",
  signature: "the response does not have the provider's signature",
  id_token: "the id_token is not valid for this authorization; nothing was saved",
  provider_error: "the provider returned an error or an unusable response",
  session_over: "the connect session has been used or has expired",
  token_refused: "the provider rejected the code or token that it had just issued",
  provider_unavailable: "the provider could not be reached",
  misconfigured:
    "the provider does not accept the integration's OAuth app; correct its client id, secret or redirect URI",
  refused: "the provider rejected the credentials; nothing was saved",
};

export function createFailedAuthorizations(options: FailedAuthorizationsOptions): FailedAuthorizations {
  const { integrations, logs, world } = options;

  function told(
    error: unknown,
    { existing, credentials, ...failing }: AuthorizationAttempt,
  ): FailureRecord & { write(): Promise<void> } {
    const { environment, integration, secrets } = failing;
    const connectionId = existing?.id ?? "";
    const log = logs.begin({ operation: "auth.authorize", environment, integration, connectionId, secrets });
    const failed = failureOf(error, { world, logId: log.id });
    const { by: reason, reason: code } = failed;
    // Misconfiguration is the operator's problem; all other failures are the users'.
    const level = reason === "misconfigured" ? "error" : "warn";
    log[level](sentences[reason], { reason, code, credentials });
    const { changes, write } = log.end({ failed: true });
    return {
      failed,
      logId: log.id,
      changes,
      write,
      tell() {
        world.metrics.authorizations.inc({ credentials, outcome: reason });
        world.log.warn("an authorization failed", {
          environment,
          integration,
          outcome: reason,
          log_id: log.id,
          ...(connectionId === "" ? {} : { connection: connectionId }),
          reason: code === undefined ? undefined : createRedaction(secrets)(code),
        });
      },
    };
  }

  async function withItsOwn({ secrets, ...failing }: AuthorizationAttempt): Promise<AuthorizationAttempt> {
    const { environment, integration: key } = failing;
    const own = await integrations.secretsOf({ environment, key });
    return {
      ...failing,
      secrets: [...secrets, ...(own === undefined ? [] : secretValues(IntegrationSecretsSchema, own))],
    };
  }

  const notKept = (err: unknown) => world.log.warn("could not store the log of a failed authorization", { err });

  /** Reports a failure and stores its log; `logId` is undefined if the log was not stored. */
  async function kept(
    error: unknown,
    failing: AuthorizationAttempt,
  ): Promise<{ failed: AuthorizationFailure; logId: string | undefined }> {
    // Unknown secrets cannot be redacted, so no log is written then; a store that cannot read them accepts no log
    // either.
    const known = await withItsOwn(failing).catch((err: unknown) => notKept(err));
    const { failed, logId, write, tell } = told(error, known ?? failing);
    tell();
    const isWritten = known !== undefined && (await write().then(() => true, notKept)) === true;
    return { failed, logId: isWritten ? logId : undefined };
  }

  return {
    note: async (error, failing) => (await kept(error, failing)).failed,
    async refuse(error, failing) {
      const refusal = refusalOf(error);
      if (refusal === undefined) throw error;
      const { logId } = await kept(error, failing);
      const { code, message } = refusal;
      throw new Fault(code, message, { cause: error, ...(logId !== undefined && { metadata: { log_id: logId } }) });
    },
    read: async (error, failing) => told(error, await withItsOwn(failing)),
  };
}
