import type { World } from "../base/world.ts";
import { type Proof, proofOf, webhookSecret } from "../core/notification-proof.ts";
import type { Reading } from "../core/notification-reading.ts";
import type { SignerKeys } from "./signer-keys.ts";
import type { Receiver } from "./webhook-receivers.ts";

/** Whether notifications come from whom they say. */
export interface NotificationProofs {
  of(receiver: Receiver, proven: ToProve): Promise<Proof>;
}

interface ToProve {
  readonly reading: Reading;
  readonly method: string;
  /** As the provider was given it. */
  readonly url: string;
}

interface ProofsOptions {
  readonly keys: SignerKeys;
  readonly world: World;
}

export const createNotificationProofs = ({ keys, world }: ProofsOptions): NotificationProofs => ({
  of({ provider, secrets }, { reading, method, url }) {
    const rules = provider.notification?.signature;
    const { webhookSecret: own = "", clientSecret = "" } = secrets ?? {};
    const secret = webhookSecret(rules, { webhookSecret: own, clientSecret });
    return proofOf({ rules, reading, method, url, secret, keys, nowMs: world.now() });
  },
});
