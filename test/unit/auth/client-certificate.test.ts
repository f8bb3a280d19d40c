import { generateKeyPairSync } from "node:crypto";
import { expect, it } from "vitest";
import { newDpopKey } from "../../../src/auth/oauth2/dpop-key.ts";
import { attachFixed, attachSigning, certificate, type Kind, refusalOf, rsaKey } from "./fixtures.ts";

const { privateKey: strange } = generateKeyPairSync("ec", {
  namedCurve: "P-256",
  publicKeyEncoding: { type: "spki", format: "pem" },
  privateKeyEncoding: { type: "pkcs8", format: "pem" },
});
const auth = { case: "clientCertificate", value: {} } as const;
const kindOf = (value: { certificate: string; privateKey: string }): Kind => ({ case: "clientCertificate", value });
const pair = { certificate, privateKey: rsaKey };

it("adds its certificate to the TLS connection, and nothing to the request", () => {
  expect(attachFixed({ auth, kind: kindOf(pair) })).toEqual({
    kind: "fixed",
    headers: [],
    query: [],
    clientCertificate: pair,
  });
});

it("reads PEM that was copied out of JSON", () => {
  const copied = { certificate: certificate.replaceAll("\n", "\\n"), privateKey: rsaKey.replaceAll("\n", "\\n") };
  expect(attachFixed({ auth, kind: kindOf(copied) }).clientCertificate).toEqual(pair);
});

it("shows the certificate that a token was got with beside the token", () => {
  const value = { token: "t", clientCertificate: certificate, clientPrivateKey: rsaKey };
  const attachment = attachFixed({
    auth: { case: "oauth2Client", value: {} },
    kind: { case: "oauth2Client", value },
  });
  expect(attachment.headers).toEqual([["authorization", "Bearer t"]]);
  expect(attachment.clientCertificate).toEqual(pair);
});

it("shows that certificate beside a token that is bound to a key as well", () => {
  const value = { token: "t", dpopKey: newDpopKey(), clientCertificate: certificate, clientPrivateKey: rsaKey };
  const attachment = attachSigning({
    auth: { case: "oauth2Client", value: { dpop: true } },
    kind: { case: "oauth2Client", value },
  });
  expect(attachment.clientCertificate).toEqual(pair);
});

it.each([
  ["the client certificate is missing", { ...pair, certificate: "" }],
  ["the client certificate must be PEM", { ...pair, certificate: rsaKey }],
  ["the private key of the client certificate is missing", { ...pair, privateKey: "" }],
  ["the private key of the client certificate must be unencrypted PEM", { ...pair, privateKey: "s3cr3t-canary" }],
  ["the private key does not match the client certificate", { ...pair, privateKey: strange }],
])("reports that %s", (message, value) => {
  expect(refusalOf({ auth, kind: kindOf(value) })).toBe(message);
});
