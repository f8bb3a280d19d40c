import type { Call, SandboxAnswer } from "../call.ts";

/** A subscription at a provider whose protocol is described by a style. */
export interface Subscription {
  /** The ID by which requests name it. */
  readonly id: string;
  readonly style: string;
  /** Whose it is, by the style: an account cannot see another's. */
  readonly owner: string;
  readonly resource: string;
  readonly address: string;
  /** The secret that its notifications are signed with, or repeat. */
  readonly token: string;
  /** Milliseconds since 1970; infinite: it has no end. */
  expiresAtMs: number;
  /** False until a challenge has confirmed it. */
  isConfirmed: boolean;
}

/** What a client asks for. */
export interface AskedSubscription {
  /** Undefined: the provider chooses it. */
  readonly id?: string;
  readonly owner: string;
  readonly resource: string;
  readonly address: string;
  readonly token?: string;
  /** Undefined: the longest life. */
  readonly expiresAtMs?: number | undefined;
  /** The same, from now. */
  readonly lifeMs?: number | undefined;
}

export interface StyleRoute {
  readonly method: string;
  readonly path: string;
}

/**
 * How a kind of provider's subscriptions look on the wire. Everything that a request must have is checked: what a
 * provider would refuse is refused.
 */
export interface SubscriptionStyle {
  readonly name: string;
  readonly create: StyleRoute;
  /** Further paths that create subscriptions. */
  readonly further?: readonly StyleRoute[];
  readonly renew?: StyleRoute;
  readonly reauthorize?: StyleRoute;
  readonly stop: StyleRoute;
  readonly list?: StyleRoute;
  /** A position that clients ask for first. */
  readonly position?: StyleRoute & { readonly answer: () => SandboxAnswer };
  /** Undefined: subscriptions have no end. */
  readonly longestMs: number | undefined;
  /**
   * How the address is verified. While the creation is open: by `echo` of a query parameter, by a `handshake` that tells
   * the key, or by `token` (a GET with the verify token). After it: by `intent` (WebSub) or a signed `challenge`.
   */
  readonly verification?: "echo" | "handshake" | "token" | "intent" | "challenge";
  /** The headers of a signed challenge. */
  readonly signed?: (subscription: Subscription, body: string, nowMs: number) => Readonly<Record<string, string>>;
  /** Whether a request to the path of creations is a stop. */
  readonly isStop?: (call: Call) => boolean;
  /** A second creation with the same ID extends the subscription, instead of being refused. */
  readonly repeats?: boolean;
  /** The most subscriptions of one owner. */
  readonly most?: number;
  /** Reads a request to create or renew. Throws a refusal naming what is wrong. */
  readonly asked: (call: Call) => AskedSubscription;
  /** The IDs that a request to renew or stop names. */
  readonly named: (call: Call) => readonly string[];
  /** The owner of a request that names subscriptions. */
  readonly ownerOf: (call: Call) => string;
  readonly created: (subscription: Subscription) => SandboxAnswer;
  readonly renewed?: (subscription: Subscription) => SandboxAnswer;
  readonly stopped?: SandboxAnswer;
  readonly listed?: (all: readonly Subscription[]) => SandboxAnswer;
}
