import { createHash } from "node:crypto";
import type { SignatureRules } from "../../../gen/latchkey/v1/provider_pb.ts";
import type { NotificationReading } from "../reading.ts";
import { isSame } from "./constant-time.ts";
import { type Proof, type ProofRequest, unproven, type VerificationScheme, withSecrets } from "./scheme.ts";
import { inTime, maxParts, signed, toleranceMs } from "./signature.ts";

/** An HMAC over the body, and whatever else the rules name. */
export const hmac: VerificationScheme = {
  prove: withSecrets(proveHmac),
  needsSecret: () => true,
  signedIdHeader: () => undefined,
};

function proveHmac(rules: SignatureRules, secrets: readonly string[], request: ProofRequest): Proof {
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
