import { constants, generateKeyPairSync, type KeyObject, sign } from "node:crypto";
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { onTestFinished } from "vitest";

/** An issuer of tokens, with its keys at a URL, as the API server of a cluster or a SPIFFE bundle endpoint has them. */
export interface Issuer {
  readonly url: string;
  readonly requests: readonly { readonly path: string; readonly authorization: string | undefined }[];
  /** The public key in PEM, which an attacker knows. */
  readonly publicKey: string;
  jwks(): string;
  /** Replaces the key: tokens are signed by the next one from now on. `keepsOld` publishes the former key, too. */
  rotate(keepsOld?: boolean): void;
  /** Answers with this status until it is changed. */
  status: number;
  token(claims?: Readonly<Record<string, unknown>>, header?: Readonly<Record<string, unknown>>): string;
  /** Stops it; tests call it themselves only outside of a test. */
  stop(): void;
}

export type IssuerAlgorithm = "RS256" | "PS256" | "ES256" | "ES384" | "EdDSA";

interface SigningKey {
  readonly kid: string;
  readonly privateKey: KeyObject;
  readonly publicKey: KeyObject;
}

const part = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString("base64url");

const pairs: Readonly<Record<IssuerAlgorithm, () => Omit<SigningKey, "kid">>> = {
  RS256: () => generateKeyPairSync("rsa", { modulusLength: 2_048 }),
  PS256: () => generateKeyPairSync("rsa", { modulusLength: 2_048 }),
  ES256: () => generateKeyPairSync("ec", { namedCurve: "prime256v1" }),
  ES384: () => generateKeyPairSync("ec", { namedCurve: "secp384r1" }),
  EdDSA: () => generateKeyPairSync("ed25519"),
};

function signed(algorithm: IssuerAlgorithm, content: string, key: KeyObject): string {
  const bytes = Buffer.from(content);
  const { RSA_PKCS1_PSS_PADDING: padding } = constants;
  switch (algorithm) {
    case "RS256":
      return sign("sha256", bytes, key).toString("base64url");
    case "PS256":
      return sign("sha256", bytes, { key, padding, saltLength: 32 }).toString("base64url");
    case "ES256":
      return sign("sha256", bytes, { key, dsaEncoding: "ieee-p1363" }).toString("base64url");
    case "ES384":
      return sign("sha384", bytes, { key, dsaEncoding: "ieee-p1363" }).toString("base64url");
    case "EdDSA":
      return sign(null, bytes, key).toString("base64url");
  }
}

/** Starts an issuer and stops it when the test has finished. */
export async function startIssuer(algorithm: IssuerAlgorithm = "RS256", use = "sig"): Promise<Issuer> {
  const issuer = await startUnmanagedIssuer(algorithm, use);
  onTestFinished(() => issuer.stop());
  return issuer;
}

export async function startUnmanagedIssuer(algorithm: IssuerAlgorithm = "RS256", use = "sig"): Promise<Issuer> {
  const requests: { path: string; authorization: string | undefined }[] = [];
  let count = 0;
  let published: SigningKey[] = [];
  const current = () => published.at(-1) as SigningKey;
  const rotate = (keepsOld = false) => {
    count += 1;
    published = [...(keepsOld ? published : []), { kid: `key-${count}`, ...pairs[algorithm]() }];
  };
  rotate();
  const jwks = () =>
    JSON.stringify({
      keys: published.map(({ kid, publicKey }) => ({
        ...publicKey.export({ format: "jwk" }),
        kid,
        use,
        alg: algorithm,
      })),
    });
  const server = createServer((request: IncomingMessage, response) => {
    const { url: path = "", headers } = request;
    requests.push({ path, authorization: headers.authorization });
    const documents: Readonly<Record<string, () => string>> = {
      "/.well-known/openid-configuration": () =>
        JSON.stringify({ issuer: issuer.url, jwks_uri: `${issuer.url}/openid/v1/jwks` }),
      "/openid/v1/jwks": jwks,
    };
    response.writeHead(issuer.status, { "content-type": "application/json" }).end(documents[path]?.() ?? "{}");
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const issuer: Issuer = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    get publicKey() {
      return current().publicKey.export({ format: "pem", type: "spki" }).toString();
    },
    jwks,
    rotate,
    status: 200,
    token(claims = {}, header = {}) {
      const now = Math.floor(Date.now() / 1_000);
      const { kid, privateKey } = current();
      const known = { iss: issuer.url, aud: ["latchkey"], sub: account, iat: now, nbf: now, exp: now + 3_600 };
      const content = `${part({ alg: algorithm, kid, ...header })}.${part({ ...known, ...claims })}`;
      return `${content}.${signed(algorithm, content, privateKey)}`;
    },
    stop() {
      server.closeAllConnections();
      server.close();
    },
  };
  return issuer;
}

export const account = "system:serviceaccount:shop:checkout";
