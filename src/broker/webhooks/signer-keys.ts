import { createLateCache } from "../../base/caches/late-cache.ts";
import { Fault } from "../../base/fault.ts";
import { RequestFailed, type SendSmallRequest } from "../../base/small-requests.ts";
import type { World } from "../../base/world.ts";
import { isObject } from "../../core/dialect/json-fields.ts";
import type { SignerKey } from "../../core/notifications/jwt.ts";

/** Public keys with which providers sign their notifications, by the URL of a JWK Set (RFC 7517). */
export type SignerKeys = (url: string) => Promise<readonly SignerKey[]>;

/**
 * Cache time of keys. Providers usually publish a new key days before using it; a new key used at once is accepted
 * after this time.
 */
const keptMs = 300_000;
/** Cache time of a failure, so that not every notification repeats a failed fetch. */
const failureKeptMs = 5_000;
const kept = 100;
const deadlineMs = 10_000;
const maxBytes = 256 * 1024;

export function createSignerKeys({
  send,
  world,
}: {
  readonly send: SendSmallRequest;
  readonly world: World;
}): SignerKeys {
  const known = createLateCache<Promise<readonly SignerKey[]>>({ max: kept, ttl: keptMs });

  async function fetchKeys(url: string): Promise<readonly SignerKey[]> {
    try {
      const headers = { accept: "application/json" };
      const { status, body } = await send({ url, method: "GET", headers }, { deadlineMs, maxBytes });
      if (status === 200) return keysIn(body.toString());
      world.log.warn("could not fetch a provider's signing keys; will retry", { status });
    } catch (error) {
      if (!(error instanceof RequestFailed)) throw error;
      world.log.warn("could not fetch a provider's signing keys; will retry", { reason: error.reason });
    }
    // The sender did nothing wrong: the fault asks for a retry.
    throw new Fault("provider_unreachable", "the provider's signing keys cannot be fetched now; try again later", {
      retryAfterSeconds: 30,
    });
  }

  return (url) => {
    const cached = known.get(url);
    if (cached !== undefined) return cached;
    const fetching = fetchKeys(url);
    known.set(url, fetching);
    fetching.catch(() => known.set(url, fetching, { ttl: failureKeptMs }));
    return fetching;
  };
}

function keysIn(text: string): readonly SignerKey[] {
  try {
    const set: unknown = JSON.parse(text);
    const keys: unknown = isObject(set) ? set["keys"] : undefined;
    return Array.isArray(keys) ? keys.filter(isObject) : [];
  } catch {
    // Text that is not JSON holds no keys: notifications signed by them are rejected.
    return [];
  }
}
