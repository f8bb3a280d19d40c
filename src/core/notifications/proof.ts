import { createHash, createHmac, hash, timingSafeEqual } from "node:crypto";
import { durationMs } from "@bufbuild/protobuf/wkt";
import type { Provider, SignatureRules } from "../../gen/latchkey/v1/provider_pb.ts";
import { type SignatureScheme, schemeFacts, schemeOf } from "../../providers/signature-scheme.ts";
import { instantOf } from "./instant.ts";
import { isSignedBy, keysFor, readJwt, type SignerKey, wrongClaim } from "./jwt.ts";
import type { NotificationReading } from "./reading.ts";

/** Whether a notification comes from whom it says. */
export type Proof = { readonly proven: true } | { readonly proven: false; readonly reason: ProofFailure };

export type ProofFailure =
  // Nothing to prove it by: these are taken all the same.
  | "no_scheme"
  | "no_secret"
  // Refused.
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
 * A notification is taken without a proof only where there is nothing to prove it by: its provider signs nothing, or
 * the integration has no secret yet. The address alone protects it then, of which 128 bits are random; it is counted,
 * and the integration's operator is warned (`webhooks_unproven`). What could be proven and is not, is refused.
 */
export const isTaken = (proof: Proof): boolean =>
  proof.proven || proof.reason === "no_scheme" || proof.reason === "no_secret";

export interface ProofRequest {
  readonly rules: SignatureRules | undefined;
  readonly reading: NotificationReading;
  readonly method: string;
  /** As the provider was given it, with the query. */
  readonly url: string;
  /** What `webhookSecret` finds; empty: none. */
  readonly secret: string;
  /** SHA-256 of the token that the channel was given, in hex; undefined: none is known. */
  readonly expected?: string | undefined;
  /** The keys of a JWK Set, for `jwt`. What it throws stops the request: the provider comes again. */
  readonly keys: (url: string) => Promise<readonly SignerKey[]>;
  readonly nowMs: number;
}

interface ProofSecrets {
  readonly webhookSecret: string;
  readonly clientSecret: string;
}

/** What an integration's notifications are proven by; empty: nothing. */
export const webhookSecret = (
  rules: SignatureRules | undefined,
  { webhookSecret: own, clientSecret }: ProofSecrets,
): string => (own !== "" ? own : rules?.keyDefault === "client_secret" ? clientSecret : "");

/** Whether an integration of this provider can prove its notifications only once it has a webhook secret. */
export function wantsWebhookSecret({ notification }: Pick<Provider, "notification">): boolean {
  const rules = notification?.signature;
  const scheme = schemeOf(rules);
  if (rules === undefined || scheme === undefined || scheme === "none") return false;
  return schemeFacts[scheme].needsSecret(rules);
}

const proven: Proof = { proven: true };
const unproven = (reason: ProofFailure): Proof => ({ proven: false, reason });

type Prover = (rules: SignatureRules, request: ProofRequest) => Proof | Promise<Proof>;

/** A scheme that needs the integration's secret. */
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

/** A promise only where keys may have to be fetched. */
export function proofOf(request: ProofRequest): Proof | Promise<Proof> {
  const { rules } = request;
  const scheme = schemeOf(rules);
  if (rules === undefined || scheme === "none") return unproven("no_scheme");
  // Written by a later version: what cannot be checked is refused.
  return scheme === undefined ? unproven("unknown_scheme") : provers[scheme](rules, request);
}

/** One on a line each: two while one is exchanged, or one for each webhook that a provider gives its own. */
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
  // Each of them: of several notifications in one body, one that is known would vouch for any other.
  const isKnown = (token: string | undefined) =>
    token?.startsWith(prefix) === true &&
    secrets.some((secret) => isSame(sha256(token.slice(prefix.length)), sha256(secret)));
  return tokens.every(isKnown) ? proven : unproven("wrong_token");
}

/** Of texts of any length, so that the comparison tells nothing of them. */
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

/** More in one field than anybody signs with. */
const maxParts = 32;

/** `t=1,v1=a,v1=b` as pairs. */
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

/** What was signed, piece by piece; undefined: it does not cover the body, so that anybody could have put in another. */
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

/** Whether the URL, or `${form}`, says all that is in the body. */
function isCovered(bodyHashQuery: string, reading: NotificationReading): boolean {
  const { body } = reading.received;
  const bodyHash = bodyHashQuery === "" ? undefined : reading.query(bodyHashQuery);
  if (bodyHash !== undefined) return isSame(createHash("sha256").update(body).digest("hex"), bodyHash.toLowerCase());
  return body.length === 0 || reading.form() !== undefined;
}

/** Sorted by the code units of the names, as JavaScript sorts; of a name with several values, each value once. */
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

/** Standard Webhooks 1.0.0. Its signatures with two keys (`v1a`) are not looked at. */
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
  /** Undefined: it is not judged. */
  readonly toleranceMs: number | undefined;
  readonly nowMs: number;
}

/** What was signed long ago may have been overheard since. */
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
  // Its keys sign for whoever asks them to.
  if (identityClaim !== "" && secrets.length === 0)
    return unproven(request.secret === "" ? "no_secret" : "unusable_secret");
  const field = reading.header(rules.header);
  const token = field?.startsWith(prefix) === true ? readJwt(field.slice(prefix.length)) : undefined;
  if (token === undefined) return unproven("unsigned");
  // Nobody's keys are fetched for what would be refused anyway.
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

/** In a time that says nothing of where they differ. `timingSafeEqual` throws where the lengths do. */
function isSame(a: string, b: string): boolean {
  const [one, other] = [Buffer.from(a), Buffer.from(b)];
  return one.length === other.length && timingSafeEqual(one, other);
}
