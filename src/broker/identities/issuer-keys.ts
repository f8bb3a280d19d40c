import { setTimeout as sleep } from "node:timers/promises";
import { Fault } from "../../base/fault.ts";
import type { World } from "../../base/world.ts";
import type { KeySetPlace } from "../../core/identities/identity-rules.ts";
import { type KeyUse, keysIn, type VerificationKey } from "../../core/identities/verification-keys.ts";

/** Fetches the text of a JWK Set. Rejects with an error whose message says why, without any token. */
export type FetchKeySet = (place: KeySetPlace) => Promise<string>;

/** Public keys of an issuer of tokens. */
export interface IssuerKeys {
  /** Returns the keys with this ID. Waits for the set to be fetched again if the ID is unknown. */
  withId(keyId: string): Promise<readonly VerificationKey[]>;
  /** Whether the keys with this ID are still in the set, as far as is known. */
  has(keyId: string): boolean;
}

interface IssuerKeysOptions {
  readonly place: KeySetPlace;
  readonly uses: readonly KeyUse[];
  readonly fetch: FetchKeySet;
  readonly world: World;
}

/** A key that was removed from the set is accepted for this long. */
const refreshAfterMs = { url: 300_000, file: 10_000 } as const satisfies Record<KeySetPlace["kind"], number>;
/** Pauses between fetches: short after one that brought the key, longer while invented IDs or failures cause them. */
const leastPauseMs = 1_000;
const mostPauseMs = 10_000;
/** After so long without a fetch, the next one is not delayed. */
const calmMs = 60_000;
/** While the issuer cannot be reached, its last keys are accepted for this long. */
const staleForMs = 24 * 3_600_000;
/** Limits the callers that wait for an unknown key. */
const maxWaiting = 1_000;

type KeysById = ReadonlyMap<string, readonly VerificationKey[]>;

export function createIssuerKeys({ place, uses, fetch, world }: IssuerKeysOptions): IssuerKeys {
  let known: KeysById | undefined = place.kind === "file" ? byId(place.keys) : undefined;
  let fetchedAtMs = Number.NEGATIVE_INFINITY;
  let triedAtMs = Number.NEGATIVE_INFINITY;
  let pauseMs = 0;
  let hasFailed = false;
  let waiting = 0;
  let fetching: Promise<void> | undefined;
  /** Unknown IDs that the next fetch should bring. */
  const wanted = new Set<string>();

  async function load(): Promise<void> {
    triedAtMs = performance.now();
    try {
      known = byId(keysIn(await fetch(place), uses));
      fetchedAtMs = performance.now();
      hasFailed = false;
    } catch (error) {
      const reason = (error as Error).message;
      hasFailed = true;
      if (performance.now() - fetchedAtMs > staleForMs && place.kind === "url") known = undefined;
      world.log.warn("could not fetch the keys that verify tokens; will retry", { reason });
    }
    const isFruitful = !hasFailed && (wanted.size === 0 || [...wanted].some(isKnown));
    pauseMs = isFruitful ? leastPauseMs : Math.min(mostPauseMs, Math.max(leastPauseMs, pauseMs * 2));
    wanted.clear();
  }

  /** Starts a fetch, after the pause; concurrent callers share it. */
  function refresh(): Promise<void> {
    if (fetching !== undefined) return fetching;
    const sinceMs = performance.now() - triedAtMs;
    const waitMs = sinceMs > calmMs ? 0 : pauseMs - sinceMs;
    const begun = waitMs > 0 ? sleep(waitMs, undefined, { ref: false }).then(load) : load();
    fetching = begun.finally(() => {
      fetching = undefined;
    });
    return fetching;
  }

  function refreshIfOld(): void {
    if (performance.now() - fetchedAtMs <= refreshAfterMs[place.kind]) return;
    if (fetching === undefined && performance.now() - triedAtMs >= Math.max(pauseMs, leastPauseMs)) void refresh();
  }

  const found = (keyId: string) => known?.get(keyId) ?? [];
  const isKnown = (keyId: string) => known?.has(keyId) === true;

  /** The last fetch failed a moment ago: waiting for the next one would only hold callers. */
  const isAway = () => hasFailed && fetching === undefined && performance.now() - triedAtMs < pauseMs;

  async function waitFor(keyId: string): Promise<readonly VerificationKey[]> {
    if (isAway() || waiting >= maxWaiting) throw unavailable();
    const sinceMs = performance.now();
    waiting += 1;
    try {
      // A fetch that began before may have read the set as it was before this key.
      do {
        wanted.add(keyId);
        await refresh();
      } while (!isKnown(keyId) && !hasFailed && triedAtMs < sinceMs);
    } finally {
      waiting -= 1;
    }
    if (!isKnown(keyId) && hasFailed) throw unavailable();
    return found(keyId);
  }

  return {
    async withId(keyId) {
      refreshIfOld();
      const keys = found(keyId);
      return keys.length > 0 ? keys : waitFor(keyId);
    },
    has(keyId) {
      refreshIfOld();
      return found(keyId).length > 0;
    },
  };
}

const unavailable = (): Fault =>
  Fault.withoutStack(
    "identity_keys_unavailable",
    "the keys of the token's issuer cannot be fetched now; try again later",
    {
      retryAfterSeconds: mostPauseMs / 1_000,
    },
  );

const byId = (keys: readonly VerificationKey[]): KeysById => Map.groupBy(keys, ({ keyId }) => keyId);
