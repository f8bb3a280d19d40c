import { randomBytes } from "node:crypto";
import { type Call, refuse, type SandboxAnswer } from "../call.ts";
import type { KnownEndpoint } from "../endpoints.ts";
import type { SandboxRoute } from "../router.ts";
import { createAddressChecks } from "./address-checks.ts";
import type { AskedSubscription, StyleRoute, Subscription, SubscriptionStyle } from "./subscription-style.ts";

/** Subscriptions of providers that extend them, confirm them or list them, each kind described by a style. */
export interface SandboxSubscriptions {
  readonly routes: readonly SandboxRoute[];
  /** Those that are confirmed and have not ended. */
  live(): readonly Subscription[];
  /** Ends a subscription as the provider does, without a notice. */
  drop(id: string): void;
  /** Resolves once no address is being verified. */
  settled(): Promise<void>;
  reset(): void;
}

interface SubscriptionsOptions {
  readonly now: () => number;
  readonly styles: readonly SubscriptionStyle[];
  /** Aborted when the sandbox closes. */
  readonly closing: AbortSignal;
}

const mostKept = 100_000;
/** A provider forgives a client whose clock is a little ahead. */
const toleranceMs = 60_000;

export function createSubscriptions({ now, styles, closing }: SubscriptionsOptions): SandboxSubscriptions {
  const all = new Map<string, Subscription>();
  const checks = createAddressChecks({ closing, now });
  const keyOf = (style: SubscriptionStyle, owner: string, id: string) => [style.name, owner, id].join("\0");
  const isLive = ({ expiresAtMs }: Subscription) => expiresAtMs > now();
  const liveOf = ({ name }: SubscriptionStyle, of: string) =>
    [...all.values()].filter((one) => one.style === name && one.owner === of && isLive(one));
  let next = 10_000;

  function found(style: SubscriptionStyle, call: Call): readonly Subscription[] {
    const owner = style.ownerOf(call);
    const named = style.named(call).map((id) => all.get(keyOf(style, owner, id)));
    const live = named.filter((one) => one !== undefined && isLive(one)) as Subscription[];
    if (live.length === 0) throw refuse(404, "notFound", "The subscription does not exist.");
    return live;
  }

  async function create(style: SubscriptionStyle, call: Call): Promise<SandboxAnswer> {
    if (style.isStop?.(call) === true) return stop(style, call);
    const asked = style.asked(call);
    if (!URL.canParse(asked.address)) throw refuse(400, "invalid", "The address is not a URL.");
    const expiresAtMs = endOf(style, asked, now());
    const id = asked.id ?? String(next++);
    const key = keyOf(style, asked.owner, id);
    const known = all.get(key);
    const isUsed = known !== undefined && isLive(known) && style.repeats !== true;
    if (isUsed) throw refuse(400, "duplicate", "The ID is used.");
    const others = liveOf(style, asked.owner);
    if (known === undefined && others.length >= (style.most ?? mostKept))
      throw refuse(400, "exists", "There is one already.");
    const isLater = style.verification === "intent" || style.verification === "challenge";
    const token = asked.token ?? randomBytes(24).toString("base64");
    const { owner, resource, address } = asked;
    const made: Subscription = {
      id,
      style: style.name,
      owner,
      resource,
      address,
      token,
      expiresAtMs,
      isConfirmed: !isLater,
    };
    if (!isLater && !(await checks.verify(style, made))) {
      throw refuse(400, "validationFailed", "The address did not answer the validation request.");
    }
    if (!isLater) all.set(key, made);
    else {
      checks.later(style, made, (isRight) => {
        if (isRight) all.set(key, { ...made, isConfirmed: true });
      });
    }
    return style.created(made);
  }

  function renew(style: SubscriptionStyle, call: Call): SandboxAnswer {
    const asked = style.asked(call);
    const subscriptions = found(style, call);
    for (const one of subscriptions) one.expiresAtMs = endOf(style, asked, now());
    const [first] = subscriptions;
    if (first === undefined || style.renewed === undefined) throw refuse(404, "notFound", "It cannot be renewed.");
    return style.renewed(first);
  }

  function stop(style: SubscriptionStyle, call: Call): SandboxAnswer {
    for (const one of found(style, call)) {
      const key = keyOf(style, one.owner, one.id);
      if (style.verification === "intent")
        checks.later(style, one, (isRight) => void (isRight && all.delete(key)), "unsubscribe");
      else all.delete(key);
    }
    return style.stopped ?? { status: 204 };
  }

  function routesOf(style: SubscriptionStyle): readonly SandboxRoute[] {
    const { position, listed } = style;
    const mine = (call: Call) => liveOf(style, style.ownerOf(call));
    return [
      ...[style.create, ...(style.further ?? [])].flatMap((route) =>
        routeOf(route, "watch", (call) => create(style, call)),
      ),
      ...routeOf(style.renew, "renew", (call) => renew(style, call)),
      ...routeOf(style.reauthorize, "renew", (call) => ({ status: found(style, call).length > 0 ? 204 : 404 })),
      ...routeOf(style.stop, "stop", (call) => stop(style, call)),
      ...(listed === undefined ? [] : routeOf(style.list, "list", (call) => listed(mine(call)))),
      ...(position === undefined ? [] : routeOf(position, "list", position.answer)),
    ];
  }

  return {
    routes: styles.flatMap(routesOf),
    live: () => [...all.values()].filter((one) => isLive(one) && one.isConfirmed),
    drop(id) {
      for (const [key, one] of all) if (one.id === id) all.delete(key);
    },
    settled: checks.settled,
    reset: () => all.clear(),
  };
}

/** Returns the expiry that the provider grants. Throws 400 for one that it does not. */
function endOf(
  { longestMs }: SubscriptionStyle,
  { expiresAtMs: asked, lifeMs }: AskedSubscription,
  nowMs: number,
): number {
  if (longestMs === undefined) return Number.POSITIVE_INFINITY;
  const longest = nowMs + longestMs;
  const expiresAtMs = lifeMs === undefined ? asked : nowMs + lifeMs;
  if (expiresAtMs === undefined) return longest;
  if (!Number.isFinite(expiresAtMs) || expiresAtMs <= nowMs) throw refuse(400, "invalid", "The expiry is not a time.");
  if (expiresAtMs > longest + toleranceMs) throw refuse(400, "invalid", "The expiry is too late.");
  return expiresAtMs;
}

const routeOf = (
  route: StyleRoute | undefined,
  endpoint: KnownEndpoint,
  answer: SandboxRoute["answer"],
): readonly SandboxRoute[] => (route === undefined ? [] : [{ ...route, endpoint, answer }]);
