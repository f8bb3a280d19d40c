import { createSign, generateKeyPairSync, type KeyObject } from "node:crypto";
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { onTestFinished } from "vitest";

/** An issuer of service-account tokens, with its keys at a URL, as the API server of a cluster has them. */
export interface Issuer {
  readonly url: string;
  readonly requests: readonly { readonly path: string; readonly authorization: string | undefined }[];
  /** The public key in PEM, which an attacker knows. */
  readonly publicKey: string;
  jwks(): string;
  /** Replaces the key: tokens are signed by the next one from now on. */
  rotate(): void;
  /** Answers with this status until it is changed. */
  status: number;
  token(claims?: Readonly<Record<string, unknown>>, header?: Readonly<Record<string, unknown>>): string;
}

const part = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString("base64url");

export async function startIssuer(algorithm: "RS256" | "ES256" = "RS256"): Promise<Issuer> {
  const requests: { path: string; authorization: string | undefined }[] = [];
  let count = 0;
  let kid = "";
  let keys: { readonly privateKey: KeyObject; readonly publicKey: KeyObject };
  const rotate = () => {
    count += 1;
    kid = `key-${count}`;
    keys =
      algorithm === "RS256"
        ? generateKeyPairSync("rsa", { modulusLength: 2_048 })
        : generateKeyPairSync("ec", { namedCurve: "prime256v1" });
  };
  rotate();
  const jwks = () =>
    JSON.stringify({ keys: [{ ...keys.publicKey.export({ format: "jwk" }), kid, use: "sig", alg: algorithm }] });
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
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const issuer: Issuer = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    get publicKey() {
      return keys.publicKey.export({ format: "pem", type: "spki" }).toString();
    },
    jwks,
    rotate,
    status: 200,
    token(claims = {}, header = {}) {
      const now = Math.floor(Date.now() / 1_000);
      const known = { iss: issuer.url, aud: ["latchkey"], sub: account, iat: now, nbf: now, exp: now + 3_600 };
      const content = `${part({ alg: algorithm, kid, ...header })}.${part({ ...known, ...claims })}`;
      const key = { key: keys.privateKey, dsaEncoding: "ieee-p1363" } as const;
      return `${content}.${createSign("sha256").update(content).sign(key, "base64url")}`;
    },
  };
  return issuer;
}

export const account = "system:serviceaccount:shop:checkout";
