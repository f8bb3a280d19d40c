import { createPublicKey } from "node:crypto";
import { isKeyFor } from "../../base/crypto/public-keys.ts";
import { Fault } from "../../base/fault.ts";
import type { World } from "../../base/world.ts";
import { isObject } from "../../core/dialect/json-fields.ts";
import type { KeySetPlace } from "../../core/identities/identity-rules.ts";
import type { SignerKey } from "../../core/notifications/jwt.ts";

export type FetchedKeySet = Extract<KeySetPlace, { kind: "fetched" }>;

/** Fetches the text of a JWK Set. Rejects with an error whose message says why, without any token. */
export type FetchKeySet = (place: FetchedKeySet) => Promise<string>;

/** Public keys of an issuer of service-account tokens. */
export interface IssuerKeys {
  /** Returns the keys with this ID; fetches the set again for an unknown ID, but not often. */
  withId(keyId: string): Promise<readonly SignerKey[]>;
  /** Whether the keys with this ID are still in the set, as far as is known. */
  has(keyId: string): boolean;
}

interface IssuerKeysOptions {
  readonly place: KeySetPlace;
  readonly fetch: FetchKeySet;
  readonly world: World;
}

/** A key that was removed from the set is accepted for this long. */
const refreshAfterMs = 300_000;
/** Limits fetches that invented key IDs cause, and those after a failure. */
const leastPauseMs = 10_000;
/** While the issuer cannot be reached, its last keys are accepted for this long. */
const staleForMs = 24 * 3_600_000;
const maxKeys = 100;

export function createIssuerKeys({ place, fetch, world }: IssuerKeysOptions): IssuerKeys {
  let known: readonly SignerKey[] | undefined = place.kind === "given" ? usableKeys(place.keys) : undefined;
  let fetchedAtMs = Number.NEGATIVE_INFINITY;
  let triedAtMs = Number.NEGATIVE_INFINITY;
  let fetching: Promise<void> | undefined;

  async function load(from: FetchedKeySet): Promise<void> {
    try {
      known = keysIn(await fetch(from));
      fetchedAtMs = performance.now();
    } catch (error) {
      const reason = (error as Error).message;
      if (performance.now() - fetchedAtMs > staleForMs) known = undefined;
      world.log.warn("could not fetch the keys that verify tokens of edges; will retry", { reason });
    }
  }

  /** Starts a fetch unless one was tried just now; concurrent callers share it. */
  function refresh(): Promise<void> {
    if (place.kind === "given") return Promise.resolve();
    if (fetching === undefined && performance.now() - triedAtMs >= leastPauseMs) {
      triedAtMs = performance.now();
      fetching = load(place).finally(() => {
        fetching = undefined;
      });
    }
    return fetching ?? Promise.resolve();
  }

  const found = (keyId: string) => known?.filter(({ kid }) => kid === keyId) ?? [];

  return {
    async withId(keyId) {
      if (performance.now() - fetchedAtMs > refreshAfterMs) void refresh();
      if (found(keyId).length === 0) await refresh();
      if (known !== undefined) return found(keyId);
      const message = "the keys of the tokens' issuer cannot be fetched now; try again later";
      throw new Fault("identity_keys_unavailable", message, { retryAfterSeconds: leastPauseMs / 1_000 });
    },
    has(keyId) {
      if (performance.now() - fetchedAtMs > refreshAfterMs) void refresh();
      return found(keyId).length > 0;
    },
  };
}

/** Returns the usable keys of a JWK Set. Throws if the text is none. */
export function keysIn(text: string): readonly SignerKey[] {
  let set: unknown;
  try {
    set = JSON.parse(text);
  } catch {
    throw new Error("the key set is not JSON");
  }
  const keys = isObject(set) ? set["keys"] : undefined;
  if (!Array.isArray(keys)) throw new Error("the key set has no list `keys`");
  const usable = usableKeys(keys.filter(isObject));
  if (usable.length === 0) throw new Error("the key set has no RSA key of 2048 bits or P-256 key with a `kid`");
  return usable;
}

/** Public keys for RS256 and ES256 only: a shared secret in the set is never used. */
const usableKeys = (keys: readonly SignerKey[]): readonly SignerKey[] => keys.slice(0, maxKeys).filter(isUsable);

function isUsable({ kid, kty, alg, use, ...parts }: SignerKey): boolean {
  if (typeof kid !== "string" || (use !== undefined && use !== "sig")) return false;
  const algorithm = kty === "RSA" ? "RS256" : "ES256";
  if (alg !== undefined && alg !== algorithm) return false;
  try {
    const key = createPublicKey({ key: { ...parts, kty: kty ?? "" }, format: "jwk" });
    return isKeyFor(kty === "RSA" ? "rsa_sha256" : "ecdsa_p256_sha256", key);
  } catch {
    // Unreadable, or of a kind that is not supported here.
    return false;
  }
}
