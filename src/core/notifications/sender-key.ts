import { createPublicKey, type JsonWebKey, type KeyObject, X509Certificate } from "node:crypto";
import tls from "node:tls";
import { isKeyFor, type PublicKeyAlgorithm, readPublicKey } from "../../base/crypto/public-keys.ts";
import type { SenderKeyRequest, ValueRule } from "../../gen/latchkey/v1/provider_pb.ts";
import { valueAt } from "../../providers/dotted-path.ts";
import { isHostAllowed } from "../../providers/host-pattern.ts";
import { isObject } from "../dialect/json-fields.ts";
import { type NotificationReading, readJson } from "./reading.ts";

import { valuesOf } from "./value-rule.ts";

/** A request for a sender's public key. */
export interface SenderKeyTarget {
  readonly rules: SenderKeyRequest;
  readonly url: string;
  /** Undefined: the request is a GET. */
  readonly body: string | undefined;
}

interface SenderKeySource {
  readonly reading: NotificationReading;
  readonly settings?: ((name: string) => string | undefined) | undefined;
}

/** Key IDs are names and numbers. Nothing else becomes part of a URL or a body. */
const keyIdForm = /^(?!\.{1,2}$)[A-Za-z0-9._~+/=:@-]{1,200}$/;
const maxUrlLength = 1_000;

/**
 * Builds the request for the key that a notification names; undefined if it names none, or one that must not be fetched.
 * `keyId` is the ID in the signature itself, such as a JWT's `kid`.
 */
export function senderKeyTarget(
  rules: SenderKeyRequest,
  { reading, settings }: SenderKeySource,
  keyId?: string,
): SenderKeyTarget | undefined {
  const read = (rule: ValueRule | undefined) => (rule === undefined ? undefined : valuesOf(rule, reading)[0]);
  const id = rules.keyId === undefined ? keyId : read(rules.keyId);
  if (id !== undefined && !keyIdForm.test(id)) return undefined;
  const wantsId = rules.url.includes("${keyId}") || rules.body.includes("${keyId}");
  if (wantsId && id === undefined) return undefined;
  const url =
    rules.urlValue === undefined
      ? rules.url.replaceAll("${keyId}", () => encodeURIComponent(id ?? ""))
      : read(rules.urlValue);
  if (url === undefined || !isKeyUrl(url, rules)) return undefined;
  const body = rules.body === "" ? undefined : filledBody(rules.body, { keyId: id, settings });
  return rules.body !== "" && body === undefined ? undefined : { rules, url, body };
}

/** Reports whether a key may be fetched from this URL, which a stranger may have chosen. */
function isKeyUrl(text: string, { url: own, hosts }: SenderKeyRequest): boolean {
  if (text.length > maxUrlLength || !URL.canParse(text)) return false;
  const { protocol, username, password, port, hash, hostname } = new URL(text);
  const isPlain = protocol === "https:" && username === "" && password === "" && port === "" && hash === "";
  if (!isPlain) return false;
  const ownHost = URL.canParse(own) ? [new URL(own).hostname] : [];
  return isHostAllowed(hostname, [...hosts, ...ownHost]);
}

interface BodyValues {
  readonly keyId: string | undefined;
  readonly settings: SenderKeySource["settings"];
}

/** Fills a JSON body, with values escaped as JSON text; undefined if a value is missing. */
function filledBody(body: string, { keyId, settings }: BodyValues): string | undefined {
  let isMissing = false;
  const filled = body.replace(/\$\{([^}]+)\}/g, (_, name: string) => {
    const value = name === "keyId" ? keyId : name.startsWith("integration.") ? settings?.(name.slice(12)) : undefined;
    isMissing ||= value === undefined;
    return JSON.stringify(value ?? "").slice(1, -1);
  });
  return isMissing ? undefined : filled;
}

/** A sender's key as its provider publishes it. */
export interface SenderKey {
  readonly key: KeyObject;
  /** End of its certificate; undefined: no end is known. */
  readonly endsMs: number | undefined;
}

export interface SenderKeyTrust {
  /** Undefined: any, such as a JWT's, which names it. */
  readonly algorithm: PublicKeyAlgorithm | undefined;
  readonly nowMs: number;
  /** Roots of certificates; default: those that browsers trust. */
  readonly roots?: readonly X509Certificate[];
}

/** Reads a response with a key; undefined if it holds none that can be trusted for the algorithm. */
export function readSenderKey(
  response: Uint8Array,
  rules: SenderKeyRequest,
  trust: SenderKeyTrust,
): SenderKey | undefined {
  const { algorithm } = trust;
  const json = rules.path === "" ? undefined : readJson(response)?.value;
  const found = rules.path === "" ? Buffer.from(response).toString() : valueAt(rules.path, json ?? {});
  try {
    if (rules.format === "jwk") {
      const jwk = typeof found === "string" ? readJson(Buffer.from(found))?.value : found;
      return isObject(jwk)
        ? ofAlgorithm(createPublicKey({ key: jwk as JsonWebKey, format: "jwk" }), algorithm)
        : undefined;
    }
    if (typeof found !== "string") return undefined;
    if (rules.format === "certificate") return certifiedKey(found, rules, trust);
    const key = readPublicKey(algorithm, found);
    return key === undefined ? undefined : { key, endsMs: undefined };
  } catch {
    // The response is not in the format of the rules.
    return undefined;
  }
}

const ofAlgorithm = (key: KeyObject, algorithm: PublicKeyAlgorithm | undefined): SenderKey | undefined =>
  key.type === "public" && (algorithm === undefined || isKeyFor(algorithm, key))
    ? { key, endsMs: undefined }
    : undefined;

/** Longer than any chain of a public authority. */
const maxChain = 6;

function certifiedKey(
  text: string,
  { certificateNames }: SenderKeyRequest,
  { algorithm, nowMs, roots }: SenderKeyTrust,
): SenderKey | undefined {
  const blocks = text.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g) ?? [];
  const chain = blocks.slice(0, maxChain).map((block) => new X509Certificate(block));
  const [leaf] = chain;
  if (leaf === undefined || leaf.ca || !chain.every((one) => isInForce(one, nowMs))) return undefined;
  if (certificateNames.length > 0) {
    if (!certificateNames.some((name) => leaf.checkHost(name, { subject: "default" }) !== undefined)) return undefined;
    const inForce = (roots ?? publicRoots()).filter((root) => isInForce(root, nowMs));
    if (!endsAtRoot(chain, inForce)) return undefined;
  }
  const key = ofAlgorithm(leaf.publicKey, algorithm);
  return key === undefined ? undefined : { key: key.key, endsMs: leaf.validToDate.getTime() };
}

const isInForce = ({ validFromDate, validToDate }: X509Certificate, nowMs: number): boolean =>
  validFromDate.getTime() <= nowMs && nowMs <= validToDate.getTime();

/** Reports whether each certificate is issued by the next, and the last is a root or issued by one. */
function endsAtRoot(chain: readonly X509Certificate[], roots: readonly X509Certificate[]): boolean {
  const isIssuedBy = (one: X509Certificate, issuer: X509Certificate) =>
    issuer.ca && one.checkIssued(issuer) && one.verify(issuer.publicKey);
  for (const [i, one] of chain.entries()) {
    if (roots.some((root) => root.raw.equals(one.raw) || isIssuedBy(one, root))) return true;
    const issuer = chain[i + 1];
    if (issuer === undefined || !isIssuedBy(one, issuer)) return false;
  }
  return false;
}

let known: readonly X509Certificate[] | undefined;
/** Read and parsed when first used: there are some 150. */
function publicRoots(): readonly X509Certificate[] {
  known ??= tls.rootCertificates.map((root) => new X509Certificate(root));
  return known;
}
