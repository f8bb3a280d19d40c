import { createHmac, timingSafeEqual } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { LRUCache } from "lru-cache";
import {
  type AuthorizationServer,
  clockSkew,
  clockTolerance,
  customFetch,
  expectNoNonce,
  type JWKS,
  jwksCache,
  OperationProcessingError,
  processAuthorizationCodeResponse,
  processRefreshTokenResponse,
  ResponseBodyError,
  UnsupportedOperationError,
  validateApplicationLevelSignature,
} from "oauth4webapi";
import { TokenFailure } from "../auth/tokens.ts";
import type { Send } from "../base/sending.ts";
import type { World } from "../base/world.ts";
import { isObject } from "../core/json-fields.ts";
import type { ReadTokens } from "../core/token-answer.ts";
import type { OAuth2Rules } from "../gen/latchkey/v1/provider_pb.ts";
import { type AuthorizationServers, issuerOf, type KeySetPlace } from "./authorization-server.ts";
import type { OAuth2Grant } from "./oauth2-grants.ts";
import type { Asking, TokenRequest } from "./token-endpoint.ts";
import { misconfigured, unanswered, unusable } from "./token-failure.ts";

/** What comes with tokens and says whose they are (OpenID Connect Core, section 2), once it is known who made it. */
export interface IdTokens {
  /**
   * Before a renewal is sent: its answer is written down without waiting for anything, so that the keys must be there
   * when it comes. Nothing that goes wrong here keeps a token from being renewed.
   */
  prepare(asking: Asking, rules: OAuth2Rules): Promise<Prepared>;
  /**
   * The tokens, with an id_token that was verified or with none, where the provider's description says by which keys.
   * Of an authorization, a wrong one is `unusable`.
   */
  believed(tokens: ReadTokens, judged: Judged): Promise<ReadTokens>;
}

/** By what an id_token is judged; undefined: nobody says by which keys, and nothing rests on it. */
type Prepared = { readonly place: KeySetPlace; readonly keys: KeySet } | "not_at_hand" | undefined;

interface Judged {
  readonly request: TokenRequest & { readonly grant: OAuth2Grant };
  readonly rules: OAuth2Rules;
  /** Looked at unless it is an authorization. */
  readonly prepared: Prepared;
  /** By the provider's clock. */
  readonly nowMs: number;
}

interface IdTokensOptions {
  readonly send: Send;
  readonly servers: AuthorizationServers;
  readonly world: World;
}

interface KeySet extends JWKS {
  readonly fetchedAtMs: number;
}

/** OpenID Connect Core, section 3.1.3.7. */
const toleranceS = 60;
/** A key that was taken out of the set is believed for so long. */
const keptMs = 300_000;
/** Section 10.1.1: an unfamiliar key is looked for in the set anew; but not for everybody who makes one up. */
const familiarMs = 60_000;
const keptSets = 1_000;
const maxBytes = 256 * 1024;
const deadlineMs = 10_000;
/** A provider whose keys are not to be had does not slow each renewal down. */
const preparingMs = 5_000;
const prepareAgainMs = 60_000;

/** What is signed by a key of a set (RFC 7518, section 3.1; RFC 8037), where metadata do not say by what. */
const bySet = "RS256 RS384 RS512 PS256 PS384 PS512 ES256 ES384 ES512 EdDSA Ed25519".split(" ");

export function createIdTokens({ send, servers, world }: IdTokensOptions): IdTokens {
  // Whoever waits for the same keys is joined; a failure is nobody's but theirs.
  const known = new LRUCache<string, KeySet>({ max: keptSets, ttl: keptMs, fetchMethod: fetched });
  /** By issuer. */
  const notToBeHad = new LRUCache<string, true>({ max: keptSets, ttl: prepareAgainMs });

  async function fetched(url: string): Promise<KeySet> {
    const request = { url, method: "GET", headers: { accept: "application/json" } };
    const { status, body } = await send(request, { deadlineMs, maxBytes });
    const keys = status === 200 ? keysIn(body.toString()) : undefined;
    if (keys === undefined) throw misconfigured(`keys_${status}`, "the provider's key set cannot be read");
    return { keys, fetchedAtMs: world.now() };
  }

  async function keysOf(asking: Asking, rules: OAuth2Rules): Promise<Exclude<Prepared, string>> {
    const place = await servers.keySetOf(asking, rules);
    return place === undefined ? undefined : { place, keys: await known.forceFetch(place.url) };
  }

  /** What keeps the keys away; what is no failure of the provider's is thrown. */
  function whyAway(thrown: unknown, asking: Asking): string {
    const error = unanswered(thrown, "the provider's key set");
    if (!(error instanceof TokenFailure)) throw error;
    const { code } = error;
    world.log.warn("the keys of a provider's id_tokens were not to be had", { ...about(asking), code });
    return code;
  }

  /** By the keys that there are, and where none of them fits, by those that the provider has now. */
  async function verify(idToken: string, { request, rules, nowMs }: Omit<Judged, "prepared">): Promise<void> {
    const away = (thrown: unknown) => {
      // Not `passing`: what the tokens were got with has been used.
      throw unusable("id_token_unverified", `the provider's keys are not to be had: ${whyAway(thrown, request)}`);
    };
    const found = await keysOf(request, rules).catch(away);
    if (found === undefined) return;
    const { place, keys } = found;
    try {
      await check({ idToken, place, keys, request, nowMs });
    } catch (error) {
      const isUnfamiliar = error instanceof TokenFailure && error.code === "id_token_key";
      if (!isUnfamiliar || world.now() - keys.fetchedAtMs < familiarMs) throw error;
      const anew = await known.forceFetch(place.url, { forceRefresh: true }).catch(away);
      await check({ idToken, place, keys: anew, request, nowMs });
    }
  }

  return {
    async prepare(asking, rules) {
      const issuer = issuerOf(asking, rules);
      if (issuer === "" || (rules.jwksUrl === "" && rules.metadataUrl === "")) return undefined;
      if (notToBeHad.has(issuer)) return "not_at_hand";
      try {
        return await within(preparingMs, keysOf(asking, rules));
      } catch (thrown) {
        whyAway(thrown, asking);
        notToBeHad.set(issuer, true);
        return "not_at_hand";
      }
    },
    async believed(tokens, { prepared, ...judged }) {
      const { id_token: given, ...raw } = tokens.raw;
      if (given === undefined || given === null || given === "") return tokens;
      // What is no text is no id_token either.
      const idToken = typeof given === "string" ? given : "";
      const { request, nowMs } = judged;
      if (isAuthorization(request.grant)) {
        await verify(idToken, judged);
        return tokens;
      }
      if (prepared === undefined) return tokens;
      try {
        if (prepared === "not_at_hand") throw unusable("id_token_unverified", "the provider's keys are not at hand");
        await check({ ...prepared, idToken, request, nowMs });
        return tokens;
      } catch (error) {
        if (!(error instanceof TokenFailure)) throw error;
        // The tokens are kept: what they were got with is good for nothing any more.
        world.log.warn("an id_token was left out of what a renewal brought", { ...about(request), code: error.code });
        return { ...tokens, raw, idToken: undefined };
      }
    },
  };
}

async function within<T>(ms: number, work: Promise<T>): Promise<T> {
  const over = new AbortController();
  const late = sleep(ms, undefined, { signal: over.signal }).then(() => {
    throw new TokenFailure(tooLate, "it takes too long");
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    over.abort();
  }
}

const tooLate = { kind: "passing", code: "timeout", retryAfterMs: undefined } as const;

/** An end user is there, who can begin again. */
const isAuthorization = ({ type }: OAuth2Grant): boolean => type === "authorization_code" || type === "device_code";

const about = ({ provider, integration: { environment, key } }: Asking) => ({
  ...{ environment, integration: key, provider: provider.name },
});

function keysIn(text: string): KeySet["keys"] | undefined {
  try {
    const set: unknown = JSON.parse(text);
    const keys: unknown = isObject(set) ? set["keys"] : undefined;
    return Array.isArray(keys) ? keys.filter(isObject) : undefined;
  } catch {
    // No JSON, and so no keys.
    return undefined;
  }
}

interface Checked {
  readonly idToken: string;
  readonly place: KeySetPlace;
  readonly keys: KeySet;
  readonly request: Judged["request"];
  /** By the provider's clock. */
  readonly nowMs: number;
}

/** Throws `unusable`, with a code that says what is wrong with it. */
async function check({ idToken, place, keys, request, nowMs }: Checked): Promise<void> {
  const { integration, client: own, grant } = request;
  const client = {
    client_id: own?.id ?? integration.oauth?.clientId ?? "",
    [clockSkew]: Math.round((nowMs - Date.now()) / 1_000),
    [clockTolerance]: toleranceS,
  };
  // Made for this one: the library keeps keys by it, and those are kept here.
  const server: AuthorizationServer = {
    issuer: place.issuer,
    jwks_uri: place.url,
    id_token_signing_alg_values_supported: [...(place.algorithms ?? bySet)],
  };
  // The library looks at an id_token where it comes: in an answer of the token endpoint.
  const answer = Response.json({ access_token: "none", token_type: "bearer", id_token: idToken });
  try {
    if (isAuthorization(grant)) {
      const nonce = grant.type === "authorization_code" ? grant.nonce : undefined;
      await processAuthorizationCodeResponse(server, client, answer, {
        expectedNonce: nonce ?? expectNoNonce,
        requireIdToken: true,
      });
    } else {
      // Section 12.2: with a renewal there may be the first one's nonce, or none.
      await processRefreshTokenResponse(server, client, answer);
    }
  } catch (error) {
    throw refusalFor(error, claimsWrong);
  }
  if (isBySecret(idToken)) {
    // Section 3.1.3.7, 8. The metadata name it, or the library would have refused it.
    const secret = own === undefined ? (request.secrets?.clientSecret ?? "") : own.secret;
    if (isSignedWith(idToken, secret)) return;
    throw unusable("id_token_signature", "the id_token is not signed with the client's secret");
  }
  try {
    const cache = { jwks: { keys: keys.keys }, uat: Math.floor(Date.now() / 1_000) };
    await validateApplicationLevelSignature(server, answer, {
      [jwksCache]: cache,
      [customFetch]: () => Promise.reject(new Error("the keys are at hand")),
    });
  } catch (error) {
    throw refusalFor(error, signatureWrong);
  }
}

const hashes: Readonly<Record<string, string>> = { HS256: "sha256", HS384: "sha384", HS512: "sha512" };

function algorithmOf(idToken: string): string {
  // The library has read it as JSON before.
  const header: JsonObject = JSON.parse(Buffer.from(idToken.split(".")[0] ?? "", "base64url").toString());
  return String(header["alg"]);
}

const isBySecret = (idToken: string): boolean => Object.hasOwn(hashes, algorithmOf(idToken));

function isSignedWith(idToken: string, secret: string): boolean {
  const [head = "", payload = "", signature = ""] = idToken.split(".");
  // An empty key would be everybody's.
  if (secret === "") return false;
  const right = createHmac(hashes[algorithmOf(idToken)] ?? "", secret)
    .update(`${head}.${payload}`)
    .digest();
  const given = Buffer.from(signature, "base64url");
  return given.length === right.length && timingSafeEqual(given, right);
}

type Refusal = OperationProcessingError | ResponseBodyError | UnsupportedOperationError;

const isRefusal = (error: unknown): error is Refusal =>
  error instanceof OperationProcessingError ||
  error instanceof ResponseBodyError ||
  error instanceof UnsupportedOperationError;

/** Neither its message nor itself as a cause: they hold what was found. */
function refusalFor(error: unknown, codeOf: (refusal: Refusal) => string): unknown {
  return isRefusal(error) ? unusable(codeOf(error), "the id_token is not one to believe") : error;
}

const byClaim: Readonly<Record<string, string>> = {
  iss: "id_token_issuer",
  aud: "id_token_audience",
  azp: "id_token_audience",
  nonce: "id_token_nonce",
};

function claimsWrong({ code, cause }: Refusal): string {
  if (code === "OAUTH_JWT_TIMESTAMP_CHECK_FAILED") return "id_token_expired";
  const claim: JsonValue | undefined = isObject(cause) ? cause["claim"] : undefined;
  return byClaim[typeof claim === "string" ? claim : ""] ?? "id_token_unreadable";
}

const signatureWrong = ({ code }: Refusal): string =>
  code === "OAUTH_KEY_SELECTION_FAILED" ? "id_token_key" : "id_token_signature";
