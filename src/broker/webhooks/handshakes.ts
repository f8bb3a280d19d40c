import { Fault } from "../../base/fault.ts";
import type { NotificationReading } from "../../core/notifications/reading.ts";
import type { ChannelKeys } from "../channels/channel-keys.ts";
import { channelIn } from "./notification-proofs.ts";
import type { WebhookReceiver } from "./webhook-receivers.ts";

/**
 * Requests by which a provider tells the key of a channel while Latchkey is creating it. Every other handshake about a
 * channel is refused: its sender could sign whatever it likes afterwards.
 */
export interface Handshakes {
  /** Returns undefined if the request is no handshake about a channel. Rejects with the fault that its sender gets. */
  answer(receiver: WebhookReceiver, reading: NotificationReading): Promise<HandshakeAnswer> | undefined;
}

export interface HandshakeAnswer {
  readonly status: 200;
  readonly body: "";
  readonly headers: Readonly<Record<string, string>>;
}

export function createHandshakes({ keys }: { readonly keys: Pick<ChannelKeys, "learn"> }): Handshakes {
  return {
    answer(receiver, reading) {
      const name = receiver.provider.notification?.signature?.handshakeHeader ?? "";
      const key = name === "" ? undefined : reading.header(name);
      const channel = key === undefined ? undefined : channelIn(receiver, reading);
      if (key === undefined || channel === undefined) return undefined;
      return keys.learn(channel, key).then((isLearned) => {
        if (!isLearned) throw new Fault("not_found", "Latchkey is not creating this channel");
        return { status: 200, body: "", headers: { [name]: key } };
      });
    },
  };
}
