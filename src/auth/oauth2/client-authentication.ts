import type { KeyObject } from "node:crypto";
import {
  type ClientAuth,
  ClientSecretJwt,
  ClientSecretPost,
  type CryptoKey,
  modifyAssertion,
  None,
  PrivateKeyJwt,
  TlsClientAuth,
} from "oauth4webapi";
import { readPrivateKey } from "../jwt/private-key.ts";
import { CannotAttach, type Client } from "../scheme.ts";

interface AuthenticationRequest {
  /** The method in the provider's description; empty: the default. */
  readonly method: string;
  readonly client: Client;
  /** A certificate is presented when the connection is opened. */
  readonly hasCertificate: boolean;
  /** The provider's clock, as far as it is known. */
  readonly nowMs: () => number;
  /** How the provider's assertions differ from the usual ones. */
  readonly assertion?: AssertionDifferences | undefined;
}

interface AssertionDifferences {
  /** Empty: the issuer, or the endpoint. */
  readonly audience: string;
  /** Undefined: the default. */
  readonly lifetimeMs: number | undefined;
  /** Header parameters besides `alg` and `typ`. */
  readonly header: Readonly<Record<string, string>>;
}

/** Without this, a clock slightly ahead of the provider's would date assertions in the provider's future. */
const backdatedS = 10;
const lifetimeS = 60;

/** Authenticates a client at a token endpoint: with one method, never with two (RFC 6749, section 2.3). */
export function clientAuthentication(request: AuthenticationRequest): ClientAuth {
  const { method, client, hasCertificate, nowMs, assertion: own } = request;
  const assertion = {
    [modifyAssertion](header: Record<string, unknown>, claims: Record<string, unknown>) {
      const now = Math.floor(nowMs() / 1_000);
      const lifeS = own?.lifetimeMs === undefined ? lifetimeS : Math.floor(own.lifetimeMs / 1_000);
      Object.assign(claims, { iat: now - backdatedS, nbf: now - backdatedS, exp: now + lifeS });
      if (own === undefined) return;
      if (own.audience !== "") claims["aud"] = own.audience;
      Object.assign(header, { ...own.header, alg: header["alg"] });
    },
  };
  switch (method === "" ? usual(client) : method) {
    case "client_secret_basic":
      return secretByBasic(required(client.secret, "client secret"));
    case "client_secret_user":
      return secretAsUser(required(client.secret, "client secret"));
    case "client_secret_post":
      return ClientSecretPost(required(client.secret, "client secret"));
    case "client_secret_jwt":
      return ClientSecretJwt(required(client.secret, "client secret"), assertion);
    case "private_key_jwt":
      return PrivateKeyJwt(signingKey(required(client.privateKey, "private key")), assertion);
    case "tls_client_auth":
      if (!hasCertificate) throw new CannotAttach("the client has no certificate");
      return TlsClientAuth();
    case "none":
      return None();
    default:
      throw new CannotAttach(`the provider's client authentication ${method} is not supported`);
  }
}

/** A client without a secret is a public client. */
const usual = ({ secret }: Client) => (secret === "" ? "none" : "client_secret_basic");

function required(value: string | undefined, what: string): string {
  if (value === undefined || value === "") throw new CannotAttach(`the client has no ${what}`);
  return value;
}

/**
 * RFC 6749, section 2.3.1. Replaces the library's version, which also escapes `-`, `_`, `.` and `*`: equivalent for
 * servers that decode, but wrong for the many that do not.
 */
const secretByBasic =
  (secret: string): ClientAuth =>
  (_, { client_id: id }, __, headers) => {
    const pair = `${formEncoded(id)}:${formEncoded(secret)}`;
    headers.set("authorization", `Basic ${Buffer.from(pair).toString("base64")}`);
  };

/** The secret alone, as the user name: it names the client as well. */
const secretAsUser =
  (secret: string): ClientAuth =>
  (_, __, ___, headers) => {
    headers.set("authorization", `Basic ${Buffer.from(`${secret}:`).toString("base64")}`);
  };

const formEncoded = (text: string) => new URLSearchParams([["", text]]).toString().slice(1);

const curves: Readonly<Record<string, string>> = { prime256v1: "P-256", secp384r1: "P-384", secp521r1: "P-521" };

/**
 * Chooses the algorithm by the type of the key: RS256, ES256, ES384, ES512 (RFC 7518, section 3.1) and EdDSA (RFC
 * 8037).
 */
function signingKey(pem: string): CryptoKey {
  const key = readPrivateKey(pem, "the key that signs the client's assertions");
  return key.toCryptoKey(algorithmOf(key), false, ["sign"]);
}

function algorithmOf(key: KeyObject): Parameters<KeyObject["toCryptoKey"]>[0] {
  const curve = curves[key.asymmetricKeyDetails?.namedCurve ?? ""];
  if (key.asymmetricKeyType === "ec" && curve !== undefined) return { name: "ECDSA", namedCurve: curve };
  if (key.asymmetricKeyType === "ed25519") return { name: "Ed25519" };
  if (key.asymmetricKeyType === "rsa") return { name: "RSASSA-PKCS1-v1_5", hash: "SHA-256" };
  throw new CannotAttach("the key that signs the client's assertions must be RSA, EC or Ed25519");
}
