import { Fault } from "../../base/fault.ts";
import { RequestFailed, type SendSmallRequest } from "../../base/small-requests.ts";
import type { World } from "../../base/world.ts";
import { integrationValue } from "../../core/integration-values.ts";
import {
  type Challenge,
  type ChallengeAnswer,
  challengeAnswer,
  confirmationOf,
  knowsToken,
} from "../../core/notifications/challenge.ts";
import { webhookSecret } from "../../core/notifications/proof.ts";
import type { ProofFailure } from "../../core/notifications/schemes/scheme.ts";
import type { NotificationProofs, ProofSubject } from "./notification-proofs.ts";
import type { WebhookReceiver } from "./webhook-receivers.ts";

/** Answers providers that verify the webhook URL. */
export interface ChallengeAnswers {
  /** Returns the answer, or why the sender gets none. Throws if the provider must ask again later. */
  answer(
    receiver: WebhookReceiver,
    challenge: Challenge,
    subject: ProofSubject,
  ): Promise<ChallengeAnswer | { readonly refused: ProofFailure }>;
}

interface ChallengeAnswersOptions {
  readonly proofs: NotificationProofs;
  readonly send: SendSmallRequest;
  readonly world: World;
}

const deadlineMs = 10_000;
const maxBytes = 64 * 1_024;

export function createChallengeAnswers({ proofs, send, world }: ChallengeAnswersOptions): ChallengeAnswers {
  /** Fetches the URL of a proven challenge. */
  async function confirm(url: string): Promise<void> {
    let reason = "";
    try {
      const { status } = await send({ url, method: "GET", headers: { accept: "*/*" } }, { deadlineMs, maxBytes });
      if (status >= 200 && status < 300) return;
      reason = `status ${status}`;
    } catch (error) {
      if (!(error instanceof RequestFailed)) throw error;
      reason = error.reason;
    }
    world.log.warn("could not confirm a webhook URL at its provider; the provider will ask again", { reason });
    throw new Fault("provider_unreachable", "the webhook URL cannot be confirmed now; try again later", {
      retryAfterSeconds: 30,
    });
  }

  return {
    async answer(receiver, challenge, { reading, method, url }) {
      const { provider, integration, secrets } = receiver;
      const { rules } = challenge;
      const signature = provider.notification?.signature;
      const settings = (name: string) => integrationValue(name, { integration, secrets });
      if (!knowsToken(rules, reading, settings)) return { refused: "wrong_token" };
      if (rules.proven) {
        const proof = await proofs.check(receiver, { reading, method, url });
        if (!proof.proven) return { refused: proof.reason };
      }
      const { webhookSecret: own = "", clientSecret = "" } = secrets ?? {};
      const secret = webhookSecret(signature, { webhookSecret: own, clientSecret });
      const answer = challengeAnswer(challenge, { method, url, settings, signature, secret });
      if (answer === undefined) return { refused: secret === "" ? "no_secret" : "unsigned" };
      if (rules.confirmUrl !== "") {
        const target = confirmationOf(rules, reading);
        if (target === undefined) return { refused: "wrong_identity" };
        await confirm(target);
      }
      return answer;
    },
  };
}
