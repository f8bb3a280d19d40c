import { createHash, createHmac, hash, timingSafeEqual } from "node:crypto";
import { durationMs } from "@bufbuild/protobuf/wkt";
import type { Provider, SignatureRules } from "../../gen/latchkey/v1/provider_pb.ts";
import { type SignatureScheme, schemeFacts, schemeOf } from "../../providers/signature-scheme.ts";
import { instantOf } from "./instant.ts";
import { isSignedBy, keysFor, readJwt, type SignerKey, wrongClaim } from "./jwt.ts";
import type { NotificationReading } from "./reading.ts";

/** Whether the sender of a notification is proven. */
export type Proof = { readonly proven: true } | { readonly proven: false; readonly reason: ProofFailure };

export type ProofFailure =
  // No means of proof: the notification is still accepted.
  | "no_scheme"
  | "no_secret"
  // The notification is refused.
  | "unknown_scheme"
  | "unusable_secret"
  | "unsigned"
  | "wrong_signature"
  | "wrong_token"
  | "too_old"
  | "from_the_future"
  | "unknown_key"
  | "wrong_issuer"
  | "wrong_audience"
  | "wrong_identity";

/**
 * Reports whether the notification is accepted. An unproven one is accepted only if there is nothing to prove it by:
 * its provider signs nothing, or the integration has no secret yet. Then only the URL, with 128 random bits, protects
 * it; it is counted, and the integration's operator is warned (`webhooks_unproven`). A notification that should have a
 * proof but does not is refused.
 */
export const isTaken = (proof: Proof): boolean =>
  proof.proven || proof.reason === "no_scheme" || proof.reason === "no_secret";

export interface ProofRequest {
  readonly rules: SignatureRules | undefined;
  readonly reading: NotificationReading;
  readonly method: string;
  /** The URL that was given to the provider, with its query. */
  readonly url: string;
  /** The result of `webhookSecret`; empty: none. */
  readonly secret: string;
  /** SHA-256 of the token that the channel was created with, in hex; undefined if none is known. */
  readonly expected?: string | undefined;
  /** Returns the keys of a JWK Set, for `jwt`. Errors abort the request; the provider then retries. */
  readonly keys: (url: string) => Promise<readonly SignerKey[]>;
  readonly nowMs: number;
}

interface ProofSecrets {
  readonly webhookSecret: string;
  readonly clientSecret: string;
}

/** The secret that proves an integration's notifications; empty: none. */
export const webhookSecret = (
  rules: SignatureRules | undefined,
  { webhookSecret: own, clientSecret }: ProofSecrets,
): string => (own !== "" ? own : rules?.keyDefault === "client_secret" ? clientSecret : "");

/** Reports whether an integration of this provider needs a webhook secret to prove its notifications. */
export function wantsWebhookSecret({ notification }: Pick<Provider, "notification">): boolean {
  const rules = notification?.signature;
  const scheme = schemeOf(rules);
  if (rules === undefined || scheme === undefined || scheme === "none") return false;
  return schemeFacts[scheme].needsSecret(rules);
}

const proven: Proof = { proven: true };
const unproven = (reason: ProofFailure): Proof => ({ proven: false, reason });

type Prover = (rules: SignatureRules, request: ProofRequest) => Proof | Promise<Proof>;

/** Wraps a scheme that needs the integration's secret. */
const withSecrets =
  (prove: (rules: SignatureRules, secrets: readonly string[], request: ProofRequest) => Proof): Prover =>
  (rules, request) => {
    if (request.secret === "") return unproven("no_secret");
    const secrets = secretsIn(request.secret);
    return secrets.length === 0 ? unproven("unusable_secret") : prove(rules, secrets, request);
  };

const provers: Readonly<Record<SignatureScheme, Prover>> = {
  hmac: withSecrets(hmac),
  standard_webhooks: withSecrets(standard),
  shared_token: withSecrets(sharedToken),
  channel_token: channelToken,
  jwt,
};

/** Returns a promise only if keys may have to be fetched. */
export function proofOf(request: ProofRequest): Proof | Promise<Proof> {
  const { rules } = request;
  const scheme = schemeOf(rules);
  if (rules === undefined || scheme === "none") return unproven("no_scheme");
  // Written by a later version: refuse what cannot be checked.
  return scheme === undefined ? unproven("unknown_scheme") : provers[scheme](rules, request);
}

/**
 * Splits secrets, one per line: two during a rotation, or one for each webhook of a provider that gives every
 * webhook its own.
 */
const secretsIn = (secret: string): readonly string[] =>
  secret
    .split("\n")
    .map((line) => line.replace(/\r$/, ""))
    .filter((line) => line !== "");

function channelToken({ header }: SignatureRules, { reading, secret, expected }: ProofRequest): Proof {
  if (expected === undefined && secret === "") return unproven("no_secret");
  const token = reading.header(header);
  if (token === undefined) return unproven("unsigned");
  const wanted = expected === undefined ? secretsIn(secret).map(sha256) : [expected];
  return wanted.some((one) => isSame(sha256(token), one)) ? proven : unproven("wrong_token");
}

function sharedToken(rules: SignatureRules, secrets: readonly string[], { reading }: ProofRequest): Proof {
  const { header, query, body, prefix } = rules;
  const tokens =
    header !== "" ? [reading.header(header)] : query !== "" ? [reading.query(query)] : reading.textsAt(body);
  if (tokens.length === 0 || tokens.every((token) => token === undefined)) return unproven("unsigned");
  // All tokens must match: if one body holds several notifications, a single known token must not vouch for the others.
  const isKnown = (token: string | undefined) =>
    token?.startsWith(prefix) === true &&
    secrets.some((secret) => isSame(sha256(token.slice(prefix.length)), sha256(secret)));
  return tokens.every(isKnown) ? proven : unproven("wrong_token");
}

/** Hashes texts to equal lengths, so that the comparison leaks nothing about them. */
const sha256 = (text: string): string => hash("sha256", text);

function hmac(rules: SignatureRules, secrets: readonly string[], request: ProofRequest): Proof {
  const { header, part, timestampPart, timestampHeader, prefix } = rules;
  const { reading } = request;
  const field = reading.header(header);
  if (field === undefined) return unproven("unsigned");
  const parts = part === "" ? [] : partsOf(field);
  const named = (name: string) => parts.filter(([one]) => one === name).map(([, value]) => value);
  const signatures = (part === "" ? [field] : named(part))
    .filter((value) => value.startsWith(prefix) && value.length > prefix.length)
    .map((value) => value.slice(prefix.length));
  const timestamp = timestampPart === "" ? (reading.header(timestampHeader) ?? "") : (named(timestampPart)[0] ?? "");
  const isTimed = timestampPart !== "" || timestampHeader !== "";
  if (signatures.length === 0 || (isTimed && timestamp === "")) return unproven("unsigned");

  const content = contentOf(rules, { ...request, timestamp });
  if (content === undefined) return unproven("unsigned");
  const keys = secrets.map((secret) =>
    rules.keyEncoding === "base64" ? Buffer.from(secret, "base64") : Buffer.from(secret),
  );
  if (keys.some((key) => key.length === 0)) return unproven("unusable_secret");
  const encoding = rules.encoding === "base64" ? "base64" : "hex";
  const made = keys.map((key) => signed({ hash: rules.hash, key, content }).toString(encoding));
  const sent = encoding === "hex" ? signatures.map((one) => one.toLowerCase()) : signatures;
  if (!made.some((one) => sent.some((other) => isSame(one, other)))) return unproven("wrong_signature");
  return inTime({ timestamp, unit: rules.timestampUnit, toleranceMs: toleranceMs(rules), nowMs: request.nowMs });
}

interface SignatureInput {
  readonly hash: string;
  readonly key: Uint8Array;
  readonly content: readonly Uint8Array[];
}

function signed({ hash: of, key, content }: SignatureInput): Buffer {
  const made = createHmac(of || "sha256", key);
  for (const one of content) made.update(one);
  return made.digest();
}

/** More parts than any provider puts in one field. */
const maxParts = 32;

/** Splits `t=1,v1=a,v1=b` into pairs. */
const partsOf = (field: string): readonly (readonly [name: string, value: string])[] =>
  field
    .split(",", maxParts)
    .map((one) => one.trim())
    .map((one) => {
      const at = one.indexOf("=");
      return at === -1 ? ([one, ""] as const) : ([one.slice(0, at), one.slice(at + 1)] as const);
    });

interface TimestampedProof extends ProofRequest {
  readonly timestamp: string;
}

/**
 * The signed content, piece by piece; undefined if the signature does not cover the body, so that the body could be
 * forged.
 */
function contentOf(
  { content, bodyHashQuery }: SignatureRules,
  request: TimestampedProof,
): readonly Uint8Array[] | undefined {
  const { reading, method, url, timestamp } = request;
  const { body } = reading.received;
  const pieces = (content || "${body}").split(/(\$\{\w+\})/);
  if (!pieces.includes("${body}") && !isCovered(bodyHashQuery, reading)) return undefined;
  const values: Readonly<Record<string, () => Uint8Array>> = {
    "${timestamp}": () => Buffer.from(timestamp),
    "${body}": () => body,
    "${method}": () => Buffer.from(method),
    "${url}": () => Buffer.from(url),
    "${plain_url}": () => Buffer.from(plainUrl(url)),
    "${form}": () => Buffer.from(sortedForm(reading)),
  };
  return pieces.map((piece) => values[piece]?.() ?? Buffer.from(piece));
}

/** Reports whether the URL, or `${form}`, covers the whole body. */
function isCovered(bodyHashQuery: string, reading: NotificationReading): boolean {
  const { body } = reading.received;
  const bodyHash = bodyHashQuery === "" ? undefined : reading.query(bodyHashQuery);
  if (bodyHash !== undefined) return isSame(createHash("sha256").update(body).digest("hex"), bodyHash.toLowerCase());
  return body.length === 0 || reading.form() !== undefined;
}

/**
 * Sorted by the code units of the names, as JavaScript sorts; if a name has several values, each value is used once.
 */
function sortedForm(reading: NotificationReading): string {
  const fields = (reading.form() ?? []).map(([name, value]) => `${name}\0${value}`);
  return [...new Set(fields)]
    .sort()
    .map((field) => field.replace("\0", ""))
    .join("");
}

const plainUrl = (url: string): string =>
  url.replaceAll(/%(?:3A|2F|3F|40|21|24|27|28|29|2A|2C|3B)/gi, (escaped) => decodeURIComponent(escaped));

const defaultToleranceMs = 300_000;
const toleranceMs = ({ tolerance }: SignatureRules): number | undefined =>
  tolerance === undefined ? undefined : durationMs(tolerance);

/** Standard Webhooks 1.0.0. Asymmetric signatures (`v1a`) are not checked. */
function standard(rules: SignatureRules, secrets: readonly string[], { reading, nowMs }: ProofRequest): Proof {
  const id = reading.header(rules.idHeader || "webhook-id");
  const timestamp = reading.header(rules.timestampHeader || "webhook-timestamp");
  const signatures = reading.header(rules.header || "webhook-signature");
  if (!id || !timestamp || !signatures) return unproven("unsigned");
  const keys = secrets.map((secret) => Buffer.from(secret.replace(/^whsec_/, ""), "base64"));
  if (keys.some((key) => key.length === 0)) return unproven("unusable_secret");
  const sent = signatures
    .split(" ", maxParts)
    .filter((one) => one.startsWith("v1,"))
    .map((one) => one.slice("v1,".length));
  const content = [Buffer.from(`${id}.${timestamp}.`), reading.received.body];
  const made = keys.map((key) => signed({ hash: "sha256", key, content }).toString("base64"));
  if (!made.some((one) => sent.some((other) => isSame(one, other)))) return unproven("wrong_signature");
  return inTime({ timestamp, unit: "s", toleranceMs: toleranceMs(rules) ?? defaultToleranceMs, nowMs });
}

interface SignatureTiming {
  readonly timestamp: string;
  readonly unit: string;
  /** Undefined: the age is not checked. */
  readonly toleranceMs: number | undefined;
  readonly nowMs: number;
}

/** Limits the age of a signature, since an old one may have been intercepted. */
function inTime({ timestamp, unit, toleranceMs: most, nowMs }: SignatureTiming): Proof {
  if (most === undefined) return proven;
  const at = instantOf(timestamp, unit);
  if (at === undefined || nowMs - at > most) return unproven("too_old");
  return at - nowMs > most ? unproven("from_the_future") : proven;
}

async function jwt(rules: SignatureRules, request: ProofRequest): Promise<Proof> {
  const { prefix, issuer, audience, identityClaim, jwksUrl } = rules;
  const { reading, url, nowMs } = request;
  const secrets = secretsIn(request.secret);
  // The issuer's keys sign tokens for anyone, so the identity must match one of the secrets.
  if (identityClaim !== "" && secrets.length === 0)
    return unproven(request.secret === "" ? "no_secret" : "unusable_secret");
  const field = reading.header(rules.header);
  const token = field?.startsWith(prefix) === true ? readJwt(field.slice(prefix.length)) : undefined;
  if (token === undefined) return unproven("unsigned");
  // Check the claims first: no keys are fetched for a token that would be refused anyway.
  const wrong = wrongClaim(token, { issuer, audience: audience.replaceAll("${url}", () => url), nowMs });
  if (wrong !== undefined) return unproven(wrong);
  const identity = identityClaim === "" ? undefined : token.claims[identityClaim];
  if (identityClaim !== "" && !(typeof identity === "string" && secrets.includes(identity))) {
    return unproven("wrong_identity");
  }
  const keys = keysFor(token, await request.keys(jwksUrl));
  if (keys.length === 0) return unproven("unknown_key");
  return keys.some((key) => isSignedBy(token, key)) ? proven : unproven("wrong_signature");
}

/**
 * Compares in constant time, so that timing does not reveal where the texts differ. `timingSafeEqual` throws on unequal
 * lengths.
 */
function isSame(a: string, b: string): boolean {
  const [one, other] = [Buffer.from(a), Buffer.from(b)];
  return one.length === other.length && timingSafeEqual(one, other);
}
