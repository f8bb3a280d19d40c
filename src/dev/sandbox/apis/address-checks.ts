import { randomBytes, randomUUID } from "node:crypto";
import type { Subscription, SubscriptionStyle } from "./subscription-style.ts";

/** Requests by which providers verify that the owner of an address wants a subscription. */
export interface AddressChecks {
  /** While the creation is open. Without a kind, every address is right. */
  verify(style: AddressStyle, subscription: Subscription): Promise<boolean>;
  /** After the response to the creation. */
  later(
    style: AddressStyle,
    subscription: Subscription,
    then: (isRight: boolean) => void,
    mode?: "subscribe" | "unsubscribe",
  ): void;
  settled(): Promise<void>;
}

type AddressStyle = Pick<SubscriptionStyle, "verification" | "signed">;

interface AddressChecksOptions {
  readonly closing: AbortSignal;
  readonly now: () => number;
}

const withinMs = 10_000;

export function createAddressChecks({ closing, now }: AddressChecksOptions): AddressChecks {
  const running = new Set<Promise<void>>();

  async function ask(address: string, init: RequestInit): Promise<Response | undefined> {
    try {
      const signal = AbortSignal.any([closing, AbortSignal.timeout(withinMs)]);
      return await fetch(address, { redirect: "manual", ...init, signal });
    } catch {
      return undefined;
    }
  }

  const withQuery = (address: string, query: Readonly<Record<string, string>>): string => {
    const url = new URL(address);
    for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value);
    return url.href;
  };

  async function isEchoed(response: Response | undefined, text: string): Promise<boolean> {
    return response?.ok === true && (await response.text()) === text;
  }

  async function intent({ address, resource, expiresAtMs }: Subscription, mode: string): Promise<boolean> {
    const challenge = randomUUID();
    const lease = String(Math.floor((expiresAtMs - now()) / 1_000));
    const query = { "hub.mode": mode, "hub.topic": resource, "hub.challenge": challenge };
    const lasting = mode === "subscribe" ? { ...query, "hub.lease_seconds": lease } : query;
    return isEchoed(await ask(withQuery(address, lasting), { method: "GET" }), challenge);
  }

  async function challenge({ signed }: AddressStyle, subscription: Subscription): Promise<boolean> {
    const text = randomUUID();
    const body = JSON.stringify({ challenge: text, subscription: { id: subscription.id, status: "pending" } });
    const headers = { "content-type": "application/json", ...signed?.(subscription, body, now()) };
    return isEchoed(await ask(subscription.address, { method: "POST", headers, body }), text);
  }

  async function verify(
    style: AddressStyle,
    subscription: Subscription,
    mode: "subscribe" | "unsubscribe" = "subscribe",
  ): Promise<boolean> {
    const { address, token } = subscription;
    switch (style.verification) {
      case "echo": {
        const text = `Validation: ${randomBytes(8).toString("hex")}`;
        const response = await ask(withQuery(address, { validationToken: text }), { method: "POST" });
        return isEchoed(response, text);
      }
      case "handshake": {
        const headers = { "x-hook-secret": token };
        const response = await ask(address, { method: "POST", headers });
        await response?.body?.cancel();
        return response?.ok === true && response.headers.get("x-hook-secret") === token;
      }
      case "token": {
        const query = { "hub.mode": "subscribe", "hub.challenge": "c0ffee", "hub.verify_token": token };
        const response = await ask(withQuery(address, query), { method: "GET" });
        return isEchoed(response, JSON.stringify({ "hub.challenge": "c0ffee" }));
      }
      case "intent":
        return intent(subscription, mode);
      case "challenge":
        return challenge(style, subscription);
      default:
        return true;
    }
  }

  return {
    verify,
    later(style, subscription, then, mode) {
      const work = new Promise((resolve) => setImmediate(resolve))
        .then(() => verify(style, subscription, mode))
        .then(then)
        .finally(() => running.delete(work));
      running.add(work);
    },
    async settled() {
      while (running.size > 0) await Promise.allSettled(running);
    },
  };
}
