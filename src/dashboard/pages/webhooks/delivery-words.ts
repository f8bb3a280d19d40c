import {
  type Attempt,
  Forward_State as DeliveryState,
  type Forward,
  type Notification,
  Notification_Proof as Proof,
} from "../../../gen/latchkey/v1/webhook_pb.ts";
import type { BadgeTone } from "../../components/badge.tsx";
import { errorText } from "../../data/delivery-errors.ts";

type Words = readonly [tone: BadgeTone, text: string];

export const stateWords: Readonly<Record<DeliveryState, Words>> = {
  [DeliveryState.UNSPECIFIED]: ["quiet", "Unknown"],
  [DeliveryState.PENDING]: ["info", "Waiting"],
  [DeliveryState.DELIVERED]: ["good", "Delivered"],
  [DeliveryState.DEAD]: ["bad", "Failed"],
  [DeliveryState.NO_DESTINATION]: ["warn", "No destination"],
  [DeliveryState.PAUSED]: ["warn", "Paused"],
  [DeliveryState.CANCELLED]: ["quiet", "Cancelled"],
};

/** The state of a delivery that waits for its next try differs from one that waits for its first. */
export function deliveryWords({ state, attemptCount }: Pick<Forward, "state" | "attemptCount">): Words {
  if (state === DeliveryState.PENDING && attemptCount > 0) return ["warn", "Retrying"];
  return stateWords[state] ?? stateWords[DeliveryState.UNSPECIFIED];
}

const proofWordsOf: Readonly<Record<Proof, Words>> = {
  [Proof.UNSPECIFIED]: ["quiet", "Unknown"],
  [Proof.VALID]: ["good", "Proven"],
  [Proof.NOT_SIGNED]: ["quiet", "Not signed"],
  [Proof.NO_SECRET]: ["warn", "Not checked"],
  [Proof.TEST]: ["info", "Test"],
};

export const proofWords = ({ proof }: Pick<Notification, "proof">): Words =>
  proofWordsOf[proof] ?? proofWordsOf[Proof.UNSPECIFIED];

/** What the check of the sender found, and what to do. */
export function proofSentence({ proof, proofScheme }: Pick<Notification, "proof" | "proofScheme">): string {
  switch (proof) {
    case Proof.VALID:
      return proofScheme === "channel_token"
        ? "The token is that of the channel which Latchkey created."
        : "The signature is valid.";
    case Proof.NOT_SIGNED:
      return "This provider signs no webhooks. Only the secret webhook URL protects it.";
    case Proof.NO_SECRET:
      return proofScheme === "channel_token"
        ? "Not checked: another client made its channel, so Latchkey knows no token."
        : "Not checked: the integration has no webhook secret. Add it to refuse forged webhooks.";
    case Proof.TEST:
      return "A test webhook, sent by hand. Its signature was not checked.";
    default:
      return "Received before Latchkey recorded this.";
  }
}

/** The title of a webhook in lists: its kinds in the provider's words. */
export const webhookTitle = ({ kinds }: Pick<Notification, "kinds">): string =>
  kinds.length === 0 ? "Webhook" : kinds.join(", ");

/** The provider's ID of the message, which may have several parts. */
export const messageText = ({ messageId }: Pick<Notification, "messageId">): string => messageId.split(/\0+/).join(" ");

/** A status, an error, or both. */
export const answerText = ({ status, error }: Pick<Attempt, "status" | "error">): string =>
  [...(status === 0 ? [] : [String(status)]), ...(error === "" ? [] : [errorText(error)])].join(", ");

export const isAccepted = ({ status }: Pick<Attempt, "status">): boolean => status >= 200 && status <= 299;

/** States by their name in the address. */
export const stateFilters: readonly (readonly [value: string, name: string, states: readonly DeliveryState[]])[] = [
  ["waiting", "waiting", [DeliveryState.PENDING, DeliveryState.PAUSED]],
  ["dead", "failed", [DeliveryState.DEAD]],
  ["paused", "paused", [DeliveryState.PAUSED]],
  ["no_destination", "no destination", [DeliveryState.NO_DESTINATION]],
  ["cancelled", "cancelled", [DeliveryState.CANCELLED]],
  ["delivered", "delivered", [DeliveryState.DELIVERED]],
];

export const statesOf = (value: string): readonly DeliveryState[] =>
  stateFilters.find(([name]) => name === value)?.[2] ?? [];

/** Where a delivery goes, as short as possible. */
export function destinationText(url: string): string {
  if (!URL.canParse(url)) return url;
  const { host, pathname } = new URL(url);
  return `${host}${pathname === "/" ? "" : pathname}`;
}
