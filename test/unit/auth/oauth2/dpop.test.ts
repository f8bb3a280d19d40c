import { generateKeyPairSync } from "node:crypto";
import { expect, it } from "vitest";
import { isNonce, isNonceWanted } from "../../../../src/auth/oauth2/dpop.ts";
import { newDpopKey } from "../../../../src/auth/oauth2/dpop-key.ts";
import { verifiedProof } from "../../../support/wire/dpop.ts";
import { attachFixed, attachSigning, draftOf, now, refusalOf } from "../fixtures.ts";

// RFC 9449: the key of figure 4, the token of figure 7, the proofs of figures 2 and 13.
const header =
  "eyJ0eXAiOiJkcG9wK2p3dCIsImFsZyI6IkVTMjU2IiwiandrIjp7Imt0eSI6IkVDIiwieCI6Imw4dEZyaHgtMzR0VjNoUklDUkRZOXpDa0RscEJoRjQyVVFVZldWQVdCRnMiLCJ5IjoiOVZFNGpmX09rX282NHpiVFRsY3VOSmFqSG10NnY5VERWclUwQ2R2R1JEQSIsImNydiI6IlAtMjU2In19";
const toTokenEndpoint = `${header}.eyJqdGkiOiItQndDM0VTYzZhY2MybFRjIiwiaHRtIjoiUE9TVCIsImh0dSI6Imh0dHBzOi8vc2VydmVyLmV4YW1wbGUuY29tL3Rva2VuIiwiaWF0IjoxNTYyMjYyNjE2fQ.2-GxA6T8lP4vfrg8v-FdWP0A0zdrj8igiMLvqRMUvwnQg4PtFLbdLXiOSsX0x7NVY-FNyJK70nfbV37xRZT3Lg`;
const toResource = `${header}.eyJqdGkiOiJlMWozVl9iS2ljOC1MQUVCIiwiaHRtIjoiR0VUIiwiaHR1IjoiaHR0cHM6Ly9yZXNvdXJjZS5leGFtcGxlLm9yZy9wcm90ZWN0ZWRyZXNvdXJjZSIsImlhdCI6MTU2MjI2MjYxOCwiYXRoIjoiZlVIeU8ycjJaM0RaNTNFc05yV0JiMHhXWG9hTnk1OUlpS0NBcWtzbVFFbyJ9.2oW9RP35yRqzhrtNP86L-Ey71EOptxRimPPToA1plemAgR6pxHF8y6-yqyVnmcw6Fy1dqd-jfxSYoMxhAJpLjA`;
const token = "Kz~8mXK1EalYznwH-LC-1fBAo.4Ljp~zsPE_NeO.gxU";

const auth = { case: "oauth2", value: { dpop: true } } as const;
const bound = (dpopKey: string, accessToken = token) => ({
  auth,
  kind: { case: "oauth2", value: { accessToken, dpopKey } } as const,
});
const key = newDpopKey();
const pemOf = (one: { export(options: { type: "pkcs8"; format: "pem" }): string | Buffer }) =>
  one.export({ type: "pkcs8", format: "pem" }).toString();

const proofFrom = (headers: readonly (readonly [string, string])[]) =>
  verifiedProof(headers.find(([name]) => name === "dpop")?.[1] ?? "");

it("is accepted by the verifier that reads the RFC's proofs", () => {
  expect(verifiedProof(toTokenEndpoint).claims).toMatchObject({ htm: "POST", htu: "https://server.example.com/token" });
  expect(verifiedProof(toResource).claims["jti"]).toBe("e1j3V_bKic8-LAEB");
  expect(() => verifiedProof(toResource.replace(/.A$/, "AA"))).toThrow("not signed");
});

it("equals the proof of the RFC's figure 13, except for key and signature", () => {
  const draft = { nowMs: 1_562_262_618_999, nonce: "e1j3V_bKic8-LAEB" };
  const { headers } = attachSigning(bound(key)).sign(
    draftOf("GET", "https://resource.example.org/protectedresource?not=this", draft),
  );
  expect(headers[0]).toEqual(["authorization", `DPoP ${token}`]);
  const [own, theirs] = [proofFrom(headers), verifiedProof(toResource)];
  expect(own.claims).toEqual(theirs.claims);
  expect(Object.keys(own.header).sort()).toEqual(Object.keys(theirs.header).sort());
  expect(own.header).toMatchObject({ typ: "dpop+jwt", alg: "ES256", jwk: { kty: "EC", crv: "P-256" } });
  // The public half, and nothing else of the key.
  expect(Object.keys(own.header.jwk).sort()).toEqual(["crv", "kty", "x", "y"]);
});

it.each([
  ["https://api.example.com/a%2Fb/../c;d?x=1", "https://api.example.com/a%2Fb/../c;d"],
  ["https://[2001:db8::1]:8443/", "https://[2001:db8::1]:8443/"],
  // Where the operator allows plain HTTP, the provider sees an http address.
  ["http://127.0.0.1:3010/a", "http://127.0.0.1:3010/a"],
])("names %s without its query, as it is sent", (url, htu) => {
  expect(proofFrom(attachSigning(bound(key)).sign(draftOf("PATCH", url)).headers).claims).toMatchObject({
    htm: "PATCH",
    htu,
    iat: now / 1_000,
  });
});

it("returns the provider's values, and nothing else without them", () => {
  const { sign } = attachSigning(bound(key));
  const draft = draftOf("GET", "https://api.example.com/");
  expect(proofFrom(sign({ ...draft, providerNonce: "eyJ7S_zG.eyJH0-Z.HX4w-7v" }).headers).claims["nonce"]).toBe(
    "eyJ7S_zG.eyJH0-Z.HX4w-7v",
  );
  expect(proofFrom(sign(draft).headers).claims).not.toHaveProperty("nonce");
});

it("describes what it sends, and where required values come from", () => {
  expect(attachSigning(bound(key))).toMatchObject({
    needs: "nothing",
    headerNames: ["authorization", "dpop"],
    shown: [token],
    nonceHeader: "dpop-nonce",
  });
});

it("is a bearer's token as ever when it is bound to no key", () => {
  expect(attachFixed(bound("")).headers).toEqual([["authorization", `Bearer ${token}`]]);
});

it.each([
  ["another curve", pemOf(generateKeyPairSync("ec", { namedCurve: "P-384" }).privateKey), /must be an elliptic-curve/],
  ["another kind", pemOf(generateKeyPairSync("ed25519").privateKey), /must be an elliptic-curve key on P-256/],
  ["nonsense", "a secret that is no key", /must be unencrypted PEM/],
])("refuses a key of %s, and does not repeat it", (_what, pem, message) => {
  expect(refusalOf(bound(pem))).toMatch(message);
  expect(refusalOf(bound(pem))).not.toContain("a secret");
});

it.each([
  ["", /the access token is missing/],
  ["a\r\nb", /must not contain line breaks/],
])("refuses the token %j", (accessToken, message) => {
  expect(refusalOf(bound(key, accessToken))).toMatch(message);
});

it.each([
  ['DPoP error="use_dpop_nonce", error_description="Resource server requires nonce in DPoP proof"', true],
  ['Bearer realm="x", DPoP algs="ES256", error="use_dpop_nonce"', true],
  ["dpop error=use_dpop_nonce", true],
  ['DPoP error="invalid_token"', false],
  ['DPoP error="use_dpop_nonces"', false],
  ['Bearer error="use_dpop_nonce"', false],
  ["DPoP", false],
])("reads the challenge %s", (challenge, isWanted) => {
  expect(isNonceWanted(challenge)).toBe(isWanted);
});

it.each([
  ["eyJ7S_zG.eyJH0-Z.HX4w-7v", true],
  ["x".repeat(1_024), true],
  ["x".repeat(1_025), false],
  ["", false],
  ["a b", false],
  ['a"b', false],
  ["a\\b", false],
  ["ä", false],
])("knows a nonce (%#)", (text, is) => {
  expect(isNonce(text)).toBe(is);
});
