import type { KeyObject } from "node:crypto";
import type { PublicKeyAlgorithm } from "../../../base/crypto/public-keys.ts";
import type { SignatureRules } from "../../../gen/latchkey/v1/provider_pb.ts";
import type { SignerKey } from "../jwt.ts";
import type { NotificationReading } from "../reading.ts";
import type { SenderKeyTarget } from "../sender-key.ts";

/** A way in which providers prove their webhooks. */
export interface VerificationScheme {
  /** Returns a promise only if keys may have to be fetched. */
  readonly prove: (rules: SignatureRules, request: ProofRequest) => Proof | Promise<Proof>;
  /** Reports whether nothing can be proven before the integration has a webhook secret. */
  readonly needsSecret: (rules: SignatureRules) => boolean;
  /** Returns the header with a message ID that the scheme signs; undefined if there is none. */
  readonly signedIdHeader: (rules: SignatureRules) => string | undefined;
}

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
  | "wrong_identity"
  | "wrong_body";

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
  /** Returns a sender's key, for `key_request`; undefined if there is none. Errors abort the request. */
  readonly senderKey?: FetchSenderKey;
  /** Returns a value of the integration. */
  readonly settings?: ((name: string) => string | undefined) | undefined;
  /** Contents that a challenge can have must prove nothing: Latchkey signs these for anyone who asks. */
  readonly refusesChallenges?: boolean;
  readonly nowMs: number;
}

export type FetchSenderKey = (
  target: SenderKeyTarget,
  algorithm: PublicKeyAlgorithm | undefined,
) => Promise<KeyObject | undefined>;

export const proven: Proof = { proven: true };
export const unproven = (reason: ProofFailure): Proof => ({ proven: false, reason });

type ProveWithSecrets = (rules: SignatureRules, secrets: readonly string[], request: ProofRequest) => Proof;

/** Wraps a scheme that needs the integration's secret. */
export const withSecrets =
  (prove: ProveWithSecrets) =>
  (rules: SignatureRules, request: ProofRequest): Proof => {
    if (request.secret === "") return unproven("no_secret");
    const secrets = secretsIn(request.secret);
    return secrets.length === 0 ? unproven("unusable_secret") : prove(rules, secrets, request);
  };

/**
 * Splits secrets, one per line: two during a rotation, or one for each webhook of a provider that gives every
 * webhook its own.
 */
export const secretsIn = (secret: string): readonly string[] =>
  secret
    .split("\n")
    .map((line) => line.replace(/\r$/, ""))
    .filter((line) => line !== "");
