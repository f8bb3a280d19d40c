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
 * Attaches an access token that is bound to a key: each request proves possession of the key (RFC 9449, section 7.1).
 * The token goes into the headers that the RFC names, wherever the provider's other tokens go.
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
    // RFC 7518, section 3.4: the two numbers concatenated, not DER.
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

/** RFC 9449, section 9: reports whether a 401 response rejects only the nonce. */
export const isNonceWanted = (challenge: string): boolean =>
  /(?:^|,)\s*DPoP\s[^\n]*\berror\s*=\s*"?use_dpop_nonce\b/i.test(challenge);

/** Section 8.1: reports whether the text is a valid nonce, short enough to fit into a header beside others. */
export const isNonce = (text: string): boolean => /^[\x21\x23-\x5b\x5d-\x7e]{1,1024}$/.test(text);

/** Reads an ES256 key, as `newDpopKey` creates them; every DPoP server accepts ES256. */
function keyIn(pem: string): KeyObject {
  const key = readPrivateKey(pem, "the key that the connection's tokens are bound to");
  if (key.asymmetricKeyType === "ec" && key.asymmetricKeyDetails?.namedCurve === "prime256v1") return key;
  throw new CannotAttach("the key that the connection's tokens are bound to must be an elliptic-curve key on P-256");
}

const encoded = (part: object) => Buffer.from(JSON.stringify(part), "utf8").toString("base64url");
