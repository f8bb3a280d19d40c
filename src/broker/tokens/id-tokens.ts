import { LRUCache } from "lru-cache";
import { TokenFailure } from "../../auth/oauth2/tokens.ts";
import { createLateCache } from "../../base/caches/late-cache.ts";
import type { SendSmallRequest } from "../../base/small-requests.ts";
import type { World } from "../../base/world.ts";
import { isObject } from "../../core/dialect/json-fields.ts";
import type { OAuth2Rules } from "../../gen/latchkey/v1/provider_pb.ts";
import { type AuthorizationServers, issuerOf, type KeySetLocation } from "./authorization-server.ts";
import { checkIdToken, isAuthorization, type SigningKeys } from "./id-token-check.ts";
import type { OAuth2Grant } from "./oauth2-grants.ts";
import type { ReadTokens } from "./token-answer.ts";
import type { TokenParties, TokenRequest } from "./token-endpoint.ts";
import { misconfigured, unanswered, unusable } from "./token-failure.ts";

/** Verification of id_tokens, which come with tokens and name their user (OpenID Connect Core, section 2). */
export interface IdTokens {
  /**
   * Fetches the keys before a refresh is sent: the response is stored without waiting, so the keys must be there when
   * it arrives. Errors here never prevent a refresh.
   */
  prepare(parties: TokenParties, rules: OAuth2Rules): Promise<IdTokenKeys>;
  /**
   * Returns the tokens with a verified id_token, or without one. Verifies only if the provider's description says which
   * keys apply. A wrong id_token of an authorization is `unusable`.
   */
  believed(tokens: ReadTokens, judged: IdTokenInput): Promise<ReadTokens>;
}

/** Keys that verify an id_token; undefined if no keys are configured, in which case nothing relies on the id_token. */
type IdTokenKeys = { readonly location: KeySetLocation; readonly keys: KeySet } | "not_at_hand" | undefined;

interface IdTokenInput {
  readonly request: TokenRequest & { readonly grant: OAuth2Grant };
  readonly rules: OAuth2Rules;
  /** Ignored for an authorization. */
  readonly prepared: IdTokenKeys;
  /** Current time by the provider's clock. */
  readonly nowMs: number;
}

interface IdTokensOptions {
  readonly send: SendSmallRequest;
  readonly servers: AuthorizationServers;
  readonly world: World;
}

interface KeySet {
  readonly keys: SigningKeys;
  readonly fetchedAtMs: number;
}

/** Cache time of a key set: a key removed from the set is accepted for this long. */
const keptMs = 300_000;
/**
 * Section 10.1.1: an unknown key triggers a new fetch of the set, but only if the cached set is at least this old. This
 * limits fetches caused by invented key ids.
 */
const familiarMs = 60_000;
const keptSets = 1_000;
const maxBytes = 256 * 1024;
const deadlineMs = 10_000;
/** Timeout, so that a provider whose keys are unavailable does not delay each refresh. */
const preparingMs = 5_000;
const prepareAgainMs = 60_000;

export function createIdTokens({ send, servers, world }: IdTokensOptions): IdTokens {
  // Concurrent callers share one fetch; failures are not cached.
  const known = new LRUCache<string, KeySet>({ max: keptSets, ttl: keptMs, fetchMethod: fetched });
  /** Issuers whose keys could not be fetched lately. */
  const unavailable = createLateCache<true>({ max: keptSets, ttl: prepareAgainMs });

  async function fetched(url: string): Promise<KeySet> {
    const request = { url, method: "GET", headers: { accept: "application/json" } };
    const { status, body } = await send(request, { deadlineMs, maxBytes });
    const keys = status === 200 ? keysIn(body.toString()) : undefined;
    if (keys === undefined) throw misconfigured(`keys_${status}`, "the provider's key set cannot be read");
    return { keys, fetchedAtMs: world.now() };
  }

  async function keysOf(parties: TokenParties, rules: OAuth2Rules): Promise<Exclude<IdTokenKeys, string>> {
    const location = await servers.keySetOf(parties, rules);
    return location === undefined ? undefined : { location, keys: await known.forceFetch(location.url) };
  }

  /** Logs why the keys are unavailable and returns the code; rethrows errors that are not failures of the provider. */
  function logUnavailable(thrown: unknown, parties: TokenParties): string {
    const error = unanswered(thrown, "the provider's key set");
    if (!(error instanceof TokenFailure)) throw error;
    const { code } = error;
    world.log.warn("id_token keys could not be fetched; id_tokens are dropped or refused", { ...about(parties), code });
    return code;
  }

  /** Verifies with the cached keys, or if none fits, with the provider's current keys. */
  async function verify(idToken: string, { request, rules, nowMs }: Omit<IdTokenInput, "prepared">): Promise<void> {
    const refuseUnverified = (thrown: unknown) => {
      // Not `passing`: the grant that produced the tokens is used up.
      throw unusable(
        "id_token_unverified",
        `the provider's keys could not be fetched: ${logUnavailable(thrown, request)}`,
      );
    };
    const found = await keysOf(request, rules).catch(refuseUnverified);
    if (found === undefined) return;
    const { location, keys } = found;
    try {
      await checkIdToken({ idToken, location, keys: keys.keys, request, nowMs });
    } catch (error) {
      const isUnfamiliar = error instanceof TokenFailure && error.code === "id_token_key";
      if (!isUnfamiliar || world.now() - keys.fetchedAtMs < familiarMs) throw error;
      const refetched = await known.forceFetch(location.url, { forceRefresh: true }).catch(refuseUnverified);
      await checkIdToken({ idToken, location, keys: refetched.keys, request, nowMs });
    }
  }

  return {
    async prepare(parties, rules) {
      const issuer = issuerOf(parties, rules);
      if (issuer === "" || (rules.jwksUrl === "" && rules.metadataUrl === "")) return undefined;
      if (unavailable.has(issuer)) return "not_at_hand";
      try {
        return await within(preparingMs, keysOf(parties, rules));
      } catch (thrown) {
        logUnavailable(thrown, parties);
        unavailable.set(issuer, true);
        return "not_at_hand";
      }
    },
    async believed(tokens, { prepared, ...judged }) {
      const { id_token: given, ...raw } = tokens.raw;
      if (given === undefined || given === null || given === "") return tokens;
      // A value that is not text is not a valid id_token either.
      const idToken = typeof given === "string" ? given : "";
      const { request, nowMs } = judged;
      if (isAuthorization(request.grant)) {
        await verify(idToken, judged);
        return tokens;
      }
      if (prepared === undefined) return tokens;
      try {
        if (prepared === "not_at_hand") throw unusable("id_token_unverified", "the provider's keys are not available");
        await checkIdToken({ location: prepared.location, keys: prepared.keys.keys, idToken, request, nowMs });
        return tokens;
      } catch (error) {
        // Keep the tokens whatever the error is, even an invalid key: the grant that produced them is used up.
        const code = error instanceof TokenFailure ? error.code : "id_token_unverified";
        const why = error instanceof TokenFailure ? {} : { err: error };
        world.log.warn("id_token of a refresh dropped: it could not be verified", { ...about(request), code, ...why });
        return { ...tokens, raw, idToken: undefined };
      }
    },
  };
}

async function within<T>(ms: number, work: Promise<T>): Promise<T> {
  const { promise: late, reject } = Promise.withResolvers<never>();
  // A plain timer, because an aborted sleep would create an error with its stack for each response in time.
  const timer = setTimeout(() => reject(new TokenFailure(tooLate, "the provider's key set took too long")), ms);
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}

const tooLate = { kind: "passing", code: "timeout", retryAfterMs: undefined } as const;

const about = ({ provider, integration: { environment, key } }: TokenParties) => ({
  environment,
  integration: key,
  provider: provider.name,
});

function keysIn(text: string): SigningKeys | undefined {
  try {
    const set: unknown = JSON.parse(text);
    const keys: unknown = isObject(set) ? set["keys"] : undefined;
    return Array.isArray(keys) ? keys.filter(isObject) : undefined;
  } catch {
    // Not JSON, so there are no keys.
    return undefined;
  }
}
