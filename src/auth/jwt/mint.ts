import { createHmac, type KeyObject, sign } from "node:crypto";
import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { durationMs } from "@bufbuild/protobuf/wkt";
import type { JwtRules } from "../../gen/latchkey/v1/provider_pb.ts";
import { CannotAttach } from "../scheme.ts";
import { fillAll, fillText, find, type Values } from "../template.ts";
import { readPrivateKey } from "./private-key.ts";

interface MintRequest {
  readonly rules: JwtRules;
  /** PEM, or the shared secret. */
  readonly key: string;
  /** Values that the rules may name besides `iat` and `exp`. */
  readonly values: Values;
  /** Values without which a claim is left out: others are required. */
  readonly optional?: ReadonlySet<string>;
  readonly nowMs: number;
}

interface MintedJwt {
  readonly token: string;
  /** When to mint another token: before this one expires by a clock that is ahead of ours. */
  readonly untilMs: number;
}

const defaultLifetimeMs = 300_000;
/**
 * A provider whose clock is behind ours would refuse a token from its future; for a short lifetime, a tenth is enough.
 */
const backdatedMs = (lifetimeMs: number) => Math.min(30_000, lifetimeMs / 10);
const marginMs = (lifetimeMs: number) => Math.min(60_000, lifetimeMs / 5);

/** Mints a signed JWT (RFC 7519) in the compact form of RFC 7515, section 7.1. */
export function mintJwt({ rules, key, values, optional = noValues, nowMs }: MintRequest): MintedJwt {
  const lifetimeMs = rules.lifetime === undefined ? defaultLifetimeMs : durationMs(rules.lifetime);
  const iat = Math.floor((nowMs - backdatedMs(lifetimeMs)) / 1000);
  // Counted from `iat`: providers that limit a token's lifetime check the difference.
  const exp = iat + Math.floor(lifetimeMs / 1000);
  const all = { ...values, iat, exp };

  const named = Object.entries(rules.header).map(([name, value]) => [name, fillText(value, all)]);
  const header = { typ: "JWT", ...Object.fromEntries(named), alg: rules.algorithm };
  const claims = { iat, exp, ...fillAll(withoutMissing(rules.claims ?? {}, all, optional), all) };
  const content = `${encoded(header)}.${encoded(claims)}`;
  const signature = signerOf(rules, key)(content).toString("base64url");
  return { token: `${content}.${signature}`, untilMs: exp * 1000 - marginMs(lifetimeMs) };
}

const noValues: ReadonlySet<string> = new Set();

/** Returns the claims without those that are only an optional value that is missing. */
function withoutMissing(claims: JsonObject, values: Values, optional: ReadonlySet<string>): JsonObject {
  const isMissing = (claim: JsonValue): boolean => {
    const [, name = ""] = typeof claim === "string" ? (/^\$\{([^}]*)\}$/.exec(claim) ?? []) : [];
    return optional.has(name) && ["", undefined].includes(find(name, values) as string | undefined);
  };
  return Object.fromEntries(Object.entries(claims).filter(([, claim]) => !isMissing(claim)));
}

const encoded = (part: JsonObject) => Buffer.from(JSON.stringify(part), "utf8").toString("base64url");

type Sign = (content: string) => Buffer;

function signerOf(rules: JwtRules, key: string): Sign {
  switch (rules.algorithm) {
    // RFC 7518, section 3.2.
    case "HS256": {
      const secret = secretOf(rules, key);
      return (content) => createHmac("sha256", secret).update(content).digest();
    }
    // Section 3.3.
    case "RS256": {
      const rsa = requireKey(key, { type: "rsa", name: "an RSA key" });
      return (content) => sign("sha256", Buffer.from(content), rsa);
    }
    // Section 3.4: the two numbers concatenated, not DER.
    case "ES256": {
      const p256 = requireKey(key, { type: "ec", curve: "prime256v1", name: "an elliptic-curve key on P-256" });
      return (content) => sign("sha256", Buffer.from(content), { key: p256, dsaEncoding: "ieee-p1363" });
    }
    // RFC 8037, section 3.1.
    case "EdDSA": {
      const ed25519 = requireKey(key, { type: "ed25519", name: "an Ed25519 key" });
      return (content) => sign(null, Buffer.from(content), ed25519);
    }
    default:
      throw new CannotAttach(`the provider's signing algorithm ${rules.algorithm} is not supported`);
  }
}

function secretOf({ keyEncoding }: JwtRules, key: string): Buffer {
  if (keyEncoding !== "hex" && keyEncoding !== "base64") return Buffer.from(key, "utf8");
  // Node decodes as much as it can: with half a key, every token would be refused without a visible reason.
  const whole = keyEncoding === "hex" ? /^([0-9a-f]{2})+$/i : /^[A-Za-z0-9+/_-]+={0,2}$/;
  if (!whole.test(key)) throw new CannotAttach(`the key that signs the token must be encoded as ${keyEncoding}`);
  return Buffer.from(key, keyEncoding);
}

interface WantedKey {
  readonly type: string;
  readonly curve?: string;
  readonly name: string;
}

function requireKey(pem: string, { type, curve, name }: WantedKey): KeyObject {
  const key = readPrivateKey(pem, "the key that signs the token");
  const hasCurve = curve === undefined || key.asymmetricKeyDetails?.namedCurve === curve;
  if (key.asymmetricKeyType === type && hasCurve) return key;
  throw new CannotAttach(`the key that signs the token must be ${name}`);
}
