import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { type ChallengeContext, challengeAnswer, challengeIn } from "../../../src/core/notifications/challenge.ts";
import type { ReceivedNotification } from "../../../src/core/notifications/notification.ts";
import { type NotificationReading, readingOf } from "../../../src/core/notifications/reading.ts";
import {
  type ChallengeRules,
  type NotificationRules,
  NotificationRulesSchema,
} from "../../../src/gen/latchkey/v1/provider_pb.ts";
import { loadCatalogue } from "../../../src/providers/catalogue.ts";

interface Sent {
  readonly headers?: Readonly<Record<string, string>>;
  readonly query?: string;
  readonly body?: string | Uint8Array;
}

export const receivedOf = ({ headers = {}, query = "", body = "" }: Sent): ReceivedNotification => ({
  headers: Object.entries(headers),
  query,
  body: Buffer.from(body),
});

/** A notification as the rules look at it. */
export const reading = (sent: Sent): NotificationReading => readingOf(receivedOf(sent));

export const rulesOf = (rules: MessageInitShape<typeof NotificationRulesSchema>): NotificationRules =>
  create(NotificationRulesSchema, rules);

/** The answer to a challenge; undefined if a request is none, or is not answered. */
export function replyTo(
  rules: ChallengeRules | undefined,
  read: NotificationReading,
  context: Partial<ChallengeContext> = {},
) {
  const whole = { method: "POST", url: "https://hooks.latchkey.test/webhook/e1/x", secret: "", ...context };
  const challenge = challengeIn(rules, read, whole.method);
  return challenge && challengeAnswer(challenge, { settings: () => undefined, signature: undefined, ...whole });
}

const catalogue = loadCatalogue();

/** The notification rules of a provider of the catalogue. */
export function knownRules(name: string): NotificationRules {
  const rules = catalogue.get(name)?.notification;
  if (rules === undefined) throw new Error(`${name} has no notifications`);
  return rules;
}

/** The same bytes in every run, so that a failure repeats (mulberry32). */
export function randomBytes(seed: number, length: number): Uint8Array {
  let state = seed;
  return Uint8Array.from({ length }, () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return (mixed ^ (mixed >>> 14)) & 0xff;
  });
}
