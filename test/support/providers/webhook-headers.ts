import { createHmac, generateKeyPairSync, sign as signBytes } from "node:crypto";
import type { WebhookVector } from "./fixture.ts";

const keys = generateKeyPairSync("rsa", { modulusLength: 2048 });

/** The public key of the JWTs of this run. */
export const jwkSet = () => ({
  keys: [{ ...keys.publicKey.export({ format: "jwk" }), kid: "key-1", use: "sig", alg: "RS256" }],
});

/** The headers of a webhook, with what is signed anew in each run, since it covers the webhook URL. */
export function webhookHeaders({ headers = {}, sign, jwt }: WebhookVector, url: string, nowMs: number) {
  return { ...headers, ...signed(sign, url), ...tokenOf(jwt, url, nowMs) };
}

function signed(sign: WebhookVector["sign"], url: string): Readonly<Record<string, string>> {
  if (sign === undefined) return {};
  const { header, hash, encoding, key, prefix = "", content } = sign;
  return { [header]: prefix + createHmac(hash, key).update(content.replaceAll("${url}", url)).digest(encoding) };
}

/** Claims that are seconds from now. */
const times = ["iat", "nbf", "exp"];

function tokenOf(jwt: WebhookVector["jwt"], url: string, nowMs: number): Readonly<Record<string, string>> {
  if (jwt === undefined) return {};
  const { header, prefix = "", algorithm, key, claims } = jwt;
  const filled = Object.entries(claims).map(([name, value]) => {
    if (times.includes(name)) return [name, Math.floor(nowMs / 1_000) + Number(value)];
    return [name, typeof value === "string" ? value.replaceAll("${url}", url) : value];
  });
  const content = [{ alg: algorithm, typ: "JWT", kid: "key-1" }, Object.fromEntries(filled)]
    .map((part) => Buffer.from(JSON.stringify(part)).toString("base64url"))
    .join(".");
  const signature =
    key === undefined
      ? signBytes("sha256", Buffer.from(content), keys.privateKey)
      : createHmac("sha256", key).update(content).digest();
  return { [header]: `${prefix}${content}.${signature.toString("base64url")}` };
}
