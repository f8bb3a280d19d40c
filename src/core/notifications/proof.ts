import type { NotificationRules, Provider, SignatureRules } from "../../gen/latchkey/v1/provider_pb.ts";
import { type Proof, type ProofRequest, unproven } from "./schemes/scheme.ts";
import { verificationOf } from "./schemes/schemes.ts";

/**
 * Reports whether the notification is accepted. An unproven one is accepted only if there is nothing to prove it by:
 * its provider signs nothing, or the integration has no secret yet. Then only the URL, with 128 random bits, protects
 * it; it is counted, and the integration's operator is warned (`webhooks_unproven`). A notification that should have a
 * proof but does not is refused.
 */
export const isAccepted = (proof: Proof): boolean =>
  proof.proven || proof.reason === "no_scheme" || proof.reason === "no_secret";

interface ProofSecrets {
  readonly webhookSecret: string;
  readonly clientSecret: string;
}

/** The secret that proves an integration's notifications; empty: none. */
export const webhookSecret = (
  rules: SignatureRules | undefined,
  { webhookSecret: own, clientSecret }: ProofSecrets,
): string => {
  if (rules?.keyOwner === "client") return clientSecret;
  return own !== "" ? own : rules?.keyDefault === "client_secret" ? clientSecret : "";
};

/** Reports whether an integration of this provider needs a webhook secret to prove its notifications. */
export function wantsWebhookSecret({ notification }: Pick<Provider, "notification">): boolean {
  const ways = notification === undefined ? [] : waysOf(notification);
  const isNeedy = (rules: SignatureRules) => {
    const scheme = verificationOf(rules);
    return scheme !== undefined && scheme !== "none" && scheme.needsSecret(rules);
  };
  return ways.length > 0 && ways.every(isNeedy);
}

/** Returns the ways in which a provider proves its notifications. */
export const waysOf = ({
  signature,
  furtherSignatures,
}: Pick<NotificationRules, "signature" | "furtherSignatures">): readonly SignatureRules[] =>
  signature === undefined ? furtherSignatures : [signature, ...furtherSignatures];

/**
 * Returns the first valid proof, else why the sender is not proven. A way without a secret counts only if all lack it:
 * otherwise a sender could choose the way that proves nothing.
 */
export async function firstProof(proofs: Iterable<Proof | Promise<Proof>>): Promise<Proof> {
  const failures: Proof[] = [];
  for (const proving of proofs) {
    const proof = await proving;
    if (proof.proven) return proof;
    failures.push(proof);
  }
  const known = failures.filter((one) => !isAccepted(one));
  const isSigned = (one: Proof) => !one.proven && one.reason !== "unsigned";
  return known.find(isSigned) ?? known[0] ?? failures[0] ?? unproven("no_scheme");
}

/** Returns a promise only if keys may have to be fetched. */
export function proofOf(request: ProofRequest): Proof | Promise<Proof> {
  const { rules } = request;
  const scheme = verificationOf(rules);
  if (rules === undefined || scheme === "none") return unproven("no_scheme");
  // Written by a later version: refuse what cannot be checked.
  return scheme === undefined ? unproven("unknown_scheme") : scheme.prove(rules, request);
}
