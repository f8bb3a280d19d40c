import { digestOf } from "../../../base/ids.ts";
import type { World } from "../../../base/world.ts";
import { type PendingAuthorization, PendingAuthorizationSchema } from "../../../gen/latchkey/stored/v1/stored_pb.ts";
import { secretValues } from "../../audit/secret-values.ts";
import type { Providers } from "../../setup/providers.ts";
import type { SetupCollections } from "../../setup/setup-collections.ts";
import type { ChoosePage } from "../choices/choose-page.ts";
import { type CallbackAnswer, isSame, readCallback } from "./callback.ts";
import type { CompleteAuthorization } from "./completion.ts";
import type { AuthorizationAttempt, FailedAuthorizations } from "./failed-authorizations.ts";
import { AuthorizationFailure, type FailureReason } from "./failure.ts";
import type { AuthorizationOutcome } from "./outcome.ts";
import { type PendingClaims, unknownAuthorization } from "./pending-claims.ts";

/** The browser's return from a provider. */
export interface AuthorizationCallback {
  /** The query as received, without the question mark. */
  readonly query: string;
  /** The last segment of the redirect URI; empty: the URI is shared by integrations. */
  readonly context: string;
  readonly browser: string | undefined;
}

export type FinishAuthorization = (back: AuthorizationCallback) => Promise<AuthorizationOutcome>;

interface FinishAuthorizationOptions {
  readonly collections: SetupCollections;
  readonly providers: Providers;
  readonly claims: PendingClaims;
  readonly complete: CompleteAuthorization;
  readonly choosePage: Pick<ChoosePage, "begin">;
  readonly failures: FailedAuthorizations;
  readonly world: World;
}

export function createFinishAuthorization(options: FinishAuthorizationOptions): FinishAuthorization {
  const { collections, providers, claims, complete, choosePage, failures, world } = options;

  const attemptOf = async (pending: PendingAuthorization, answer: CallbackAnswer): Promise<AuthorizationAttempt> => ({
    environment: pending.environment,
    integration: pending.integration,
    existing: pending.reconnect,
    credentials: await kindOf(pending),
    secrets: [...secretValues(PendingAuthorizationSchema, pending), ...secretsIn(answer, await codeNameOf(pending))],
  });

  async function authOf({ environment, integration: key }: PendingAuthorization) {
    const found = await collections.integrations.get(environment, key);
    return found === undefined ? undefined : providers.lookUp(found.value.provider)?.auth;
  }

  const kindOf = async (pending: PendingAuthorization) => (await authOf(pending))?.case ?? "none";

  /** Returns the provider's name of the code in its answer. */
  async function codeNameOf(pending: PendingAuthorization): Promise<string> {
    const auth = await authOf(pending);
    return (auth?.case === "oauth2" ? auth.value.parameterNames?.callbackCode : undefined) || "code";
  }

  async function titleOf({ environment, integration: key }: PendingAuthorization): Promise<string> {
    const found = await collections.integrations.get(environment, key);
    const provider = found === undefined ? undefined : providers.lookUp(found.value.provider);
    return found?.value.displayName || provider?.displayName || key;
  }

  return async ({ query, context, browser }) => {
    const answer = readCallback(query);
    if (answer === undefined) throw unknownAuthorization();
    const { first: pending, others } = await claims.claimAll(answer, context);
    for (const other of others) await failures.note(malformed(answer), await attemptOf(other, answer));
    const { environment, integration, listener, returnTo, language, theme } = pending;
    const attempt = await attemptOf(pending, answer);
    const title = await titleOf(pending);
    const page = { listener, returnTo, language, theme, redirectContext: context };
    const common = { environment, integration, title, ...page, sessionToken: "" };
    try {
      if (pending.context !== context)
        throw new AuthorizationFailure("context_mismatch", "The provider sent you back to the wrong address.");
      if (browser === undefined || !isSame(digestOf(browser), pending.browserHash)) {
        throw new AuthorizationFailure(
          "other_browser",
          "You began in another browser, or this browser did not keep its cookies.",
        );
      }
      if (answer.misuse !== undefined) throw malformed(answer);
      const connected = await complete(pending, answer);
      world.metrics.authorizations.inc({ credentials: attempt.credentials, outcome: "connected" });
      const choosing = await choosePage.begin(connected, { ...common, browserHash: pending.browserHash });
      return { ...common, connected, ...(choosing === undefined ? {} : { choosing }) };
    } catch (error) {
      const { by, message } = await failures.note(error, attempt);
      return { ...common, failed: { by, message }, sessionToken: retried.has(by) ? pending.sessionToken : "" };
    } finally {
      await claims.release(pending);
    }
  };
}

/** Failures after which the same browser may succeed with the same session. */
const retried: ReadonlySet<string> = new Set<FailureReason>([
  ...(["denied", "provider_error", "provider_unavailable", "token_refused", "refused", "id_token"] as const),
]);

/** All values, so that a repeated code is redacted as well. */
const secretsIn = ({ state, otherStates, parameters }: CallbackAnswer, codeName: string): string[] => [
  ...[state, ...otherStates],
  ...["code", codeName, "oauth_verifier"].flatMap((name) => parameters.getAll(name)).filter((one) => one !== ""),
];

const malformed = ({ misuse }: CallbackAnswer) =>
  new AuthorizationFailure("malformed_answer", "The provider's answer is not well-formed. Begin again.", misuse);
