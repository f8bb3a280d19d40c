import type { KeyObject } from "node:crypto";
import {
  isSignedByKey,
  type PublicKeyAlgorithm,
  publicKeyAlgorithmOf,
  readPublicKey,
  signatureBytes,
} from "../../../base/crypto/public-keys.ts";
import type { SignatureRules } from "../../../gen/latchkey/v1/provider_pb.ts";
import { senderKeyTarget } from "../sender-key.ts";
import { type Proof, type ProofRequest, secretsIn, unproven, type VerificationScheme } from "./scheme.ts";
import { inTime, toleranceMs } from "./signature.ts";
import { type SignedMessages, signedMessagesOf } from "./signed-message.ts";

/** A signature with the sender's private key. */
export const publicKey: VerificationScheme = {
  prove: provePublicKey,
  needsSecret: ({ publicKey: own, keyRequest, identityPath }) =>
    (own === "" && keyRequest === undefined) || identityPath !== "",
  signedIdHeader: () => undefined,
};

interface KeyedRequest {
  readonly rules: SignatureRules;
  readonly request: ProofRequest;
  readonly algorithm: PublicKeyAlgorithm;
}

function provePublicKey(rules: SignatureRules, request: ProofRequest): Proof | Promise<Proof> {
  const algorithm = publicKeyAlgorithmOf(rules.algorithm);
  if (algorithm === undefined) return unproven("unknown_scheme");
  if (publicKey.needsSecret(rules) && request.secret === "") return unproven("no_secret");
  const sent = signedMessagesOf(rules, request);
  if (sent === undefined) return unproven("unsigned");
  // The sender's key signs for others too.
  if (rules.identityPath !== "" && !isOurs(rules.identityPath, request)) return unproven("wrong_identity");
  // The time first: no key is fetched, and nothing computed, for a recording.
  const timely = inTime({
    timestamp: sent.timestamp,
    unit: rules.timestampUnit,
    toleranceMs: toleranceMs(rules),
    nowMs: request.nowMs,
  });
  if (!timely.proven) return timely;
  const keyed = { rules, request, algorithm };
  if (rules.publicKey === "" && rules.keyRequest !== undefined) return proveByFetchedKey(keyed, sent, timely);
  // An integration's own keys replace that of the description, such as when the sender has changed its key.
  const isOwn = rules.publicKey === "" || (request.secret !== "" && rules.identityPath === "");
  const keys = isOwn ? keysIn(request.secret, keyed) : [knownKey(keyed, rules.publicKey, "")];
  const usable = keys.filter((key) => key !== undefined);
  if (usable.length < keys.length || usable.length === 0) return unproven("unusable_secret");
  return areSigned(keyed, sent, usable) ? timely : unproven("wrong_signature");
}

function isOurs(path: string, { reading, secret }: ProofRequest): boolean {
  const [identity] = reading.textsAt(path);
  return identity !== undefined && secretsIn(secret).includes(identity);
}

async function proveByFetchedKey(keyed: KeyedRequest, sent: SignedMessages, timely: Proof): Promise<Proof> {
  const { rules, request, algorithm } = keyed;
  const target = rules.keyRequest === undefined ? undefined : senderKeyTarget(rules.keyRequest, request);
  if (target === undefined) return unproven("unknown_key");
  const key = await request.senderKey?.(target, algorithm);
  if (key === undefined) return unproven("unknown_key");
  return areSigned(keyed, sent, [key]) ? timely : unproven("wrong_signature");
}

/** Reports whether each message has a valid signature of one of the keys. */
const areSigned = ({ rules, algorithm }: KeyedRequest, { messages }: SignedMessages, keys: readonly KeyObject[]) =>
  messages.every(({ content, signatures }) =>
    signatures.some((text) => {
      const signature = signatureBytes(text, rules.encoding);
      return signature !== undefined && keys.some((key) => isSignedByKey({ algorithm, key, content, signature }));
    }),
  );

/** Splits a secret into keys: PEM blocks, and one key on each other line. */
const keysIn = (secret: string, keyed: KeyedRequest): readonly (KeyObject | undefined)[] => {
  const blocks = secret.match(/-----BEGIN [^-]+-----[^-]+-----END [^-]+-----|[^\r\n]+/g) ?? [];
  const texts = blocks.map((block) => block.trim()).filter((block) => block !== "");
  return texts.map((text) => knownKey(keyed, text, keyed.rules.keyEncoding));
};

/** Parsed keys, because parsing takes longer than verifying. */
const known = new Map<string, KeyObject | undefined>();
const maxKnown = 200;

function knownKey({ algorithm }: KeyedRequest, text: string, encoding: string): KeyObject | undefined {
  const name = `${algorithm} ${encoding} ${text}`;
  if (known.has(name)) return known.get(name);
  const key = readPublicKey(algorithm, text, encoding);
  if (known.size >= maxKnown) known.clear();
  known.set(name, key);
  return key;
}
