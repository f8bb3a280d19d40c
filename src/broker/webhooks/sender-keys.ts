import { createLateCache } from "../../base/caches/late-cache.ts";
import type { PublicKeyAlgorithm } from "../../base/crypto/public-keys.ts";
import { Fault } from "../../base/fault.ts";
import { RequestFailed, type SendSmallRequest } from "../../base/small-requests.ts";
import type { World } from "../../base/world.ts";
import type { FetchSenderKey } from "../../core/notifications/schemes/scheme.ts";
import { readSenderKey, type SenderKey, type SenderKeyTarget } from "../../core/notifications/sender-key.ts";
import type { ConnectionRef } from "../../gen/latchkey/v1/connection_pb.ts";

/**
 * Public keys of senders, fetched one by one. A notification, which anyone may have sent, names the key: so fetches are
 * few, a failure is remembered, and keys that are known stay usable when fetches fail.
 */
export interface SenderKeys {
  /** `owner` is the integration, whose values and token may be part of the request. */
  readonly of: (owner: KeyOwner) => FetchSenderKey;
}

type KeyOwner = Pick<ConnectionRef, "environment" | "integration">;

/** Returns a token of an integration's OAuth app. Rejects with a Fault if it gets none. */
export type ClientToken = (owner: KeyOwner) => Promise<string>;

/** Age at which a key is fetched again. A provider that withdraws a key is obeyed after this time. */
const freshMs = 3_600_000;
/** Age to which a key is used if it cannot be fetched again. */
const keptMs = 86_400_000;
/** Cache time of a failure and of an answer without a key, so that not every notification repeats the request. */
const failureKeptMs = 10_000;
const noKeyKeptMs = 60_000;
const kept = 500;
/** Limits fetches of all notifications of one integration, forged ones included. */
const fetchesPerMinute = 30;
const deadlineMs = 10_000;
const maxBytes = 64 * 1_024;

interface CachedSenderKey {
  readonly fetching: Promise<SenderKey | undefined>;
  readonly fetchedMs: number;
  /** The last key that a fetch gave. */
  readonly before: SenderKey | undefined;
}

interface FetchCount {
  readonly sinceMs: number;
  count: number;
}

export function createSenderKeys({
  send,
  clientToken,
  world,
}: {
  readonly send: SendSmallRequest;
  readonly clientToken: ClientToken;
  readonly world: World;
}): SenderKeys {
  const known = createLateCache<CachedSenderKey>({ max: kept });
  const counts = createLateCache<FetchCount>({ max: kept });

  function mayFetch(owner: string): boolean {
    const nowMs = world.now();
    const found = counts.get(owner);
    const current = found === undefined || nowMs - found.sinceMs >= 60_000 ? { sinceMs: nowMs, count: 0 } : found;
    current.count += 1;
    counts.set(owner, current);
    return current.count <= fetchesPerMinute;
  }

  async function fetchKey(
    owner: KeyOwner,
    target: SenderKeyTarget,
    algorithm: PublicKeyAlgorithm | undefined,
  ): Promise<SenderKey | undefined> {
    const { url, body, rules } = target;
    const accept = {
      accept: rules.path === "" && rules.format !== "jwk" ? "*/*" : "application/json",
      ...(rules.authorization === "client" && { authorization: `Bearer ${await clientToken(owner)}` }),
    };
    const request =
      body === undefined
        ? { url, method: "GET", headers: accept }
        : { url, method: "POST", headers: { ...accept, "content-type": "application/json" }, body, mayRepeat: true };
    try {
      const answer = await send(request, { deadlineMs, maxBytes });
      if (answer.status === 200) return readSenderKey(answer.body, rules, { algorithm, nowMs: world.now() });
      // The provider knows no such key: the notification names a wrong one.
      if (answer.status === 400 || answer.status === 404) return undefined;
      world.log.warn("could not fetch a sender's public key; will retry", { status: answer.status });
    } catch (error) {
      if (!(error instanceof RequestFailed)) throw error;
      world.log.warn("could not fetch a sender's public key; will retry", { reason: error.reason });
    }
    throw unreachable();
  }

  function remember(
    name: string,
    owner: KeyOwner,
    [target, algorithm]: Parameters<FetchSenderKey>,
    old?: CachedSenderKey,
  ) {
    if (!mayFetch(nameOf(owner))) {
      if (old?.before !== undefined) return old;
      throw unreachable();
    }
    const fetching = fetchKey(owner, target, algorithm);
    const entry: CachedSenderKey = { fetching, fetchedMs: world.now(), before: old?.before };
    known.set(name, entry, { ttl: keptMs });
    const settle = (after: CachedSenderKey, ttl: number) => {
      if (known.peek(name) === entry) known.set(name, after, { ttl });
    };
    fetching.then(
      (key) => settle({ ...entry, before: key }, key === undefined ? noKeyKeptMs : keptMs),
      () => {
        const isKnown = entry.before !== undefined;
        settle({ ...entry, fetchedMs: world.now() - freshMs + failureKeptMs }, isKnown ? keptMs : failureKeptMs);
      },
    );
    return entry;
  }

  const isUsable = (key: SenderKey | undefined): key is SenderKey =>
    key !== undefined && (key.endsMs === undefined || world.now() <= key.endsMs);

  return {
    of: (owner) => async (target, algorithm) => {
      const name = [nameOf(owner), algorithm ?? "", target.url, target.body ?? "", target.rules.path].join("\0");
      const found = known.get(name);
      const isFresh = found !== undefined && world.now() - found.fetchedMs < freshMs;
      const entry = isFresh ? found : remember(name, owner, [target, algorithm], found);
      try {
        const key = await entry.fetching;
        return isUsable(key) ? key.key : undefined;
      } catch (error) {
        if (isUsable(entry.before)) return entry.before.key;
        throw error;
      }
    },
  };
}

const nameOf = ({ environment, integration }: KeyOwner) => `${environment}\0${integration}`;

/** The sender did nothing wrong: the fault asks for a retry. */
const unreachable = (): Fault =>
  new Fault("provider_unreachable", "the sender's public key cannot be fetched now; try again later", {
    retryAfterSeconds: 30,
  });
