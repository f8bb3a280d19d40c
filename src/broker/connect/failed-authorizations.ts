import { Fault } from "../../base/fault.ts";
import type { World } from "../../base/world.ts";
import { createRedaction } from "../../core/secrets/redaction.ts";
import type { ConnectionRef } from "../../gen/latchkey/v1/connection_pb.ts";
import { IntegrationSecretsSchema } from "../../gen/latchkey/v1/integration_pb.ts";
import type { Change } from "../../store/contract.ts";
import type { Logs } from "../audit/logs.ts";
import { secretValues } from "../audit/secret-values.ts";
import type { Integrations } from "../setup/integrations.ts";
import { type AuthorizationFailure, type FailureReason, failureOf, refusalOf } from "./authorize-failure.ts";

/**
 * Authorizations that brought no connection. Each is counted, told of in the process's log, and kept as a log of its
 * environment: the end user is told little, and whoever is asked for help finds the rest.
 */
export interface FailedAuthorizations {
  /** Keeps the log in a commit of its own. A store that does not take it changes nothing about what came of it. */
  note(error: unknown, failing: AuthorizationAttempt): Promise<AuthorizationFailure>;
  /**
   * Of one that did not come as far as the provider's page: what it did not take is kept in the same way, and thrown
   * as whoever asked to go there is told, with the id of the log. All else is thrown as it is.
   */
  refuse(error: unknown, failing: AuthorizationAttempt): Promise<never>;
  /** For the caller's own commit: nothing has been told before `tell`. */
  read(error: unknown, failing: AuthorizationAttempt): Promise<FailureRecord>;
}

/** What was under way. */
export interface AuthorizationAttempt {
  readonly environment: string;
  readonly integration: string;
  /** What was to be authorised again, where it was. */
  readonly existing: Pick<ConnectionRef, "id"> | undefined;
  /** The kind, as metrics have it. */
  readonly credentials: string;
  /** All that came up, but those of the integration. */
  readonly secrets: Iterable<string>;
}

/** What came of it, before anybody knows. */
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

/** Constant: what others said stands in no log but as a code. */
const sentences: { readonly [B in FailureReason]: string } = {
  denied: "the end user did not allow it",
  expired: "nobody entered the code in time",
  other_browser: "the answer came by another browser than the one that began, or its cookies were not kept",
  context_mismatch: "the answer came to another address than the one it was asked for at",
  issuer_mismatch: "the answer is not from the provider that was asked",
  malformed_answer: "the answer names a parameter twice, or a code beside an error: nothing of it was believed",
  signature: "the answer is not signed as the provider signs it",
  id_token: "the id_token is not the provider's, or not of this authorization: nothing was filed",
  provider_error: "the provider refused, or answered with what cannot be used",
  session_over: "the connect session was used already, or is too old",
  token_refused: "the provider did not accept what it had just issued",
  provider_unavailable: "the provider could not be reached",
  misconfigured: "the provider does not accept the integration's application: its operator must mend that",
  refused: "what was brought was not accepted, and nothing was filed",
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
    // Of those who use the application, or of who runs it.
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
          ...{ environment, integration, outcome: reason, log_id: log.id },
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

  const notKept = (err: unknown) => world.log.warn("the log of an authorization that failed was not kept", { err });

  /** What is kept of it; undefined: nothing. */
  async function kept(
    error: unknown,
    failing: AuthorizationAttempt,
  ): Promise<{ failed: AuthorizationFailure; logId: string | undefined }> {
    // What is not known cannot be blanked; but a store that does not read this takes no log either.
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
