import { Fault } from "../../base/fault.ts";
import { sequentialId } from "../../base/ids.ts";
import type { SendSmallRequest } from "../../base/small-requests.ts";
import type { World } from "../../base/world.ts";
import { signatureFields } from "../../core/notifications/webhook-signature.ts";
import type { Attempt, Destination } from "../../gen/latchkey/v1/webhook_pb.ts";
import type { SigningSecrets } from "../setup/signing-secrets.ts";
import { attemptDelivery } from "./attempts/attempt.ts";
import { explainAnswer } from "./attempts/explained-answer.ts";
import type { DestinationUrl } from "./destination-pauses.ts";
import type { Destinations } from "./destinations.ts";

/** Pauses and tests destinations on request. */
export interface DestinationControl {
  /** Throws `not_found` for a URL that no deliveries go to. */
  pause(at: DestinationUrl, request: { readonly actor: string; readonly note: string }): Promise<void>;
  /** Sends a signed test message now. Throws `not_found` for a URL that no deliveries go to. */
  test(at: DestinationUrl, signal: AbortSignal): Promise<DestinationTest>;
}

export interface DestinationTest {
  readonly id: string;
  readonly attempt: Attempt;
  readonly accepted: boolean;
  readonly explanation: string;
  readonly headerNames: string[];
  readonly body: Uint8Array;
}

interface DestinationControlOptions {
  readonly destinations: Destinations;
  readonly list: (environment: string) => readonly Destination[];
  readonly secrets: SigningSecrets;
  readonly sendToApplication: SendSmallRequest;
  readonly send: SendSmallRequest;
  readonly timeoutMs: () => number;
  readonly world: World;
}

export function createDestinationControl(options: DestinationControlOptions): DestinationControl {
  const { destinations, list, secrets, sendToApplication, send, timeoutMs, world } = options;

  /** Only the environment's own URLs are trusted. */
  function requireKnown({ environment, url }: DestinationUrl): "own" | "override" {
    const kind = destinations.kindOf({ environment, url });
    if (kind !== undefined) return kind;
    if (list(environment).some((one) => one.url === url)) return "override";
    throw new Fault("not_found", "unknown destination: no deliveries go to this URL");
  }

  return {
    async pause(at, request) {
      requireKnown(at);
      await destinations.pauseFor(at, request);
    },
    async test({ environment, url }, signal) {
      const kind = requireKnown({ environment, url });
      const sentMs = world.now();
      const id = `test_${sequentialId(sentMs)}`;
      const message = "A test message of Latchkey. Answer with a 2xx status.";
      const sentAt = new Date(sentMs).toISOString();
      const body = Buffer.from(JSON.stringify({ from: "latchkey", type: "test", environment, message, sentAt }));
      const signers = await secrets.of(environment);
      const tried = await attemptDelivery({
        id,
        url,
        body,
        secrets: signers,
        number: 1,
        send: kind === "own" ? sendToApplication : send,
        timeoutMs: timeoutMs(),
        signal,
        world,
      });
      if (tried === undefined) throw new Fault("request_timeout", "the caller left before the application answered");
      const { attempt, verdict } = tried;
      const signed = signatureFields({ id, timestampMs: sentMs, body, secrets: signers });
      return {
        id,
        attempt,
        accepted: verdict.kind === "delivered",
        explanation: explainAnswer(attempt),
        headerNames: ["content-type", ...Object.keys(signed)],
        body,
      };
    },
  };
}
