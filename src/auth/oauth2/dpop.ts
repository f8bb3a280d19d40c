import { createHash, createPublicKey, type KeyObject, sign } from "node:crypto";
import { requireHeaderValue } from "../header-value.ts";
import { readPrivateKey } from "../jwt/private-key.ts";
import { CannotAttach, type RequestDraft, type SigningAttachment } from "../scheme.ts";

export const dpopHeaderNames: readonly string[] = ["authorization", "dpop"];

interface DpopToken {
  readonly token: string;
  /** PEM, PKCS #8. */
  readonly key: string;
}

/**
 * An access token that is bound to a key: whoever sends it shows with each request that they have that, too (RFC 9449,
 * section 7.1). It goes where the RFC has it, and nowhere else, wherever others of the provider's tokens go.
 */
export function boundToken({ token, key: pem }: DpopToken): SigningAttachment {
  if (token === "") throw new CannotAttach("the access token is missing");
  const authorization = requireHeaderValue(`DPoP ${token}`, "the access token");
  const key = keyIn(pem);
  const { kty, crv, x, y } = createPublicKey(key).export({ format: "jwk" });
  const header = encoded({ typ: "dpop+jwt", alg: "ES256", jwk: { kty, crv, x, y } });
  const ath = createHash("sha256").update(token, "latin1").digest("base64url");

  /** Section 4.2. */
  function proof({ method, scheme, host, path, nowMs, nonce: jti, providerNonce }: RequestDraft): string {
    const htu = `${scheme}://${host}${path}`;
    const nonce = providerNonce === undefined ? {} : { nonce: providerNonce };
    const claims = { jti, htm: method, htu, iat: Math.floor(nowMs / 1_000), ath, ...nonce };
    const content = `${header}.${encoded(claims)}`;
    // RFC 7518, section 3.4: the two numbers side by side, and not DER.
    const signature = sign("sha256", Buffer.from(content), { key, dsaEncoding: "ieee-p1363" });
    return `${content}.${signature.toString("base64url")}`;
  }

  return {
    kind: "signing",
    needs: "nothing",
    headerNames: dpopHeaderNames,
    sign: (draft) => ({
      headers: [
        ["authorization", authorization],
        ["dpop", proof(draft)],
      ],
    }),
    shown: [token],
    nonceHeader: "dpop-nonce",
  };
}

/** RFC 9449, section 9: an answer of 401 with this challenge says that nothing was wrong but the nonce. */
export const isNonceWanted = (challenge: string): boolean =>
  /(?:^|,)\s*DPoP\s[^\n]*\berror\s*=\s*"?use_dpop_nonce\b/i.test(challenge);

/** Section 8.1: what a nonce consists of; of so many characters that a header can hold it beside others. */
export const isNonce = (text: string): boolean => /^[\x21\x23-\x5b\x5d-\x7e]{1,1024}$/.test(text);

/** ES256, which every server of DPoP takes, and which `newDpopKey` makes. */
function keyIn(pem: string): KeyObject {
  const key = readPrivateKey(pem, "the key that the connection's tokens are bound to");
  if (key.asymmetricKeyType === "ec" && key.asymmetricKeyDetails?.namedCurve === "prime256v1") return key;
  throw new CannotAttach("the key that the connection's tokens are bound to must be an elliptic-curve key on P-256");
}

const encoded = (part: object) => Buffer.from(JSON.stringify(part), "utf8").toString("base64url");
