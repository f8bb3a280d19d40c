import { createHmac, createPublicKey, generateKeyPairSync, type KeyObject, verify } from "node:crypto";
import type { JsonObject, MessageInitShape } from "@bufbuild/protobuf";
import { expect, it } from "vitest";
import type { JwtRulesSchema } from "../../../../src/gen/latchkey/v1/provider_pb.ts";
import { attachFixed, now, refusalOf, rsaKey, type Setting } from "../fixtures.ts";

type Rules = MessageInitShape<typeof JwtRulesSchema>;

const pemOf = ({ privateKey }: { readonly privateKey: KeyObject }) =>
  privateKey.export({ type: "pkcs8", format: "pem" }).toString();
const p256 = pemOf(generateKeyPairSync("ec", { namedCurve: "P-256" }));
const p384 = pemOf(generateKeyPairSync("ec", { namedCurve: "P-384" }));
const ed25519 = pemOf(generateKeyPairSync("ed25519"));

interface Minting {
  readonly rules: Rules;
  readonly fields?: JsonObject;
  readonly rest?: Partial<Setting>;
}

const settingOf = ({ rules, fields = {}, rest = {} }: Minting): Setting => ({
  auth: { case: "jwt", value: { jwt: rules } },
  kind: { case: "jwt", value: { fields } },
  ...rest,
});

function mint(minting: Minting) {
  const { headers, untilMs = 0 } = attachFixed(settingOf(minting));
  const [header = "", claims = "", signature = ""] = (headers[0]?.[1] ?? "").replace(/^Bearer /, "").split(".");
  const read = (part: string): JsonObject => JSON.parse(Buffer.from(part, "base64url").toString());
  const content = Buffer.from(`${header}.${claims}`);
  return {
    header: read(header),
    claims: read(claims),
    content,
    signature: Buffer.from(signature, "base64url"),
    untilMs,
  };
}

const hs256: Rules = { algorithm: "HS256", keyField: "secret" };

it.each<[string, string, (key: string) => KeyObject, (key: KeyObject) => Parameters<typeof verify>[2], string | null]>([
  ["RS256", rsaKey, createPublicKey, (key) => key, "sha256"],
  ["ES256", p256, createPublicKey, (key) => ({ key, dsaEncoding: "ieee-p1363" }), "sha256"],
  ["EdDSA", ed25519, createPublicKey, (key) => key, null],
])("mints a token that %s verifies", (algorithm, key, publicOf, wanted, hash) => {
  const { header, content, signature } = mint({ rules: { algorithm, keyField: "key" }, fields: { key } });
  expect(header).toEqual({ typ: "JWT", alg: algorithm });
  expect(verify(hash, content, wanted(publicOf(key)), signature)).toBe(true);
});

it.each([
  ["", "s3cr3t ☃", Buffer.from("s3cr3t ☃")],
  ["hex", "00ffAB", Buffer.from([0, 255, 171])],
  ["base64", "AP+r", Buffer.from([0, 255, 171])],
  ["base64", "AP-r", Buffer.from([0, 255, 171])],
])("mints a token of a shared secret that is written as %j", (keyEncoding, secret, key) => {
  const { content, signature } = mint({ rules: { ...hs256, keyEncoding }, fields: { secret } });
  expect(signature).toEqual(createHmac("sha256", key).update(content).digest());
});

it("signs with the integration's key where the provider names no field", () => {
  const rest = { client: { id: "", secret: "", privateKey: rsaKey } };
  const { content, signature } = mint({ rules: { algorithm: "RS256" }, rest });
  expect(verify("sha256", content, createPublicKey(rsaKey), signature)).toBe(true);
});

it("fills in the values that the provider's description names", () => {
  const { header, claims } = mint({
    rules: {
      ...hs256,
      keyField: "key.secret",
      header: { kid: "${credentials.key.id}" },
      claims: {
        iss: "${credentials.issuer}",
        aud: ["/admin/", "https://${connectionConfig.host}/"],
        nbf: "${iat}",
        until: "at ${exp}",
        scope: { of: "${credentials.user}", fixed: 1 },
      },
    },
    fields: { key: { id: "k1", secret: "s" }, issuer: "me", user: 5 },
    rest: { connectionConfig: { host: "ada.example.com" } },
  });
  const iat = now / 1000 - 30;
  expect(header).toEqual({ typ: "JWT", alg: "HS256", kid: "k1" });
  expect(claims).toEqual({
    iat,
    exp: iat + 300,
    iss: "me",
    aud: ["/admin/", "https://ada.example.com/"],
    nbf: iat,
    until: `at ${iat + 300}`,
    scope: { of: 5, fixed: 1 },
  });
});

it("leaves a value alone that looks like a name or like JSON", () => {
  const odd = '${exp}","admin":"$&';
  const { claims } = mint({
    rules: { ...hs256, claims: { sub: "${credentials.user}", text: "a ${credentials.user}" } },
    fields: { secret: "s", user: odd },
  });
  expect(claims).toMatchObject({ sub: odd, text: `a ${odd}` });
  expect(claims["admin"]).toBeUndefined();
});

it("does not let a described header change the algorithm", () => {
  expect(mint({ rules: { ...hs256, header: { alg: "none" } }, fields: { secret: "s" } }).header["alg"]).toBe("HS256");
});

it.each([
  [undefined, 270, 210],
  [3_600, 3_570, 3_510],
  [10, 9, 7],
])("mints another before one of %s seconds runs out", (seconds, expiresIn, mintedAgainIn) => {
  const lifetime = seconds === undefined ? {} : { lifetime: { seconds: BigInt(seconds) } };
  const { claims, untilMs } = mint({ rules: { ...hs256, ...lifetime }, fields: { secret: "s" } });
  expect(Number(claims["exp"]) - now / 1000).toBe(expiresIn);
  expect((untilMs - now) / 1000).toBe(mintedAgainIn);
});

it("sends the stored token when there is no key to mint one", () => {
  const kind = { case: "jwt", value: { token: "stored" } } as const;
  expect(attachFixed({ ...settingOf({ rules: hs256 }), kind })).toEqual({
    kind: "fixed",
    headers: [["authorization", "Bearer stored"]],
    query: [],
  });
});

it("prefers its own token to a stored one", () => {
  const kind = { case: "jwt", value: { token: "stored", fields: { secret: "s" } } } as const;
  expect(attachFixed({ ...settingOf({ rules: hs256 }), kind }).headers[0]?.[1]).not.toContain("stored");
});

const secret = "s3cr3t-canary";
it.each<[string, Minting]>([
  ["the key that signs the token is missing", { rules: hs256, fields: { secret: "" } }],
  ["the key that signs the token is missing", { rules: hs256, fields: { secret: 5 } }],
  ["the key that signs the token is missing", { rules: { algorithm: "RS256" } }],
  [
    "the key that signs the token must be encoded as hex",
    { rules: { ...hs256, keyEncoding: "hex" }, fields: { secret: "00f" } },
  ],
  [
    "the key that signs the token must be encoded as base64",
    { rules: { ...hs256, keyEncoding: "base64" }, fields: { secret: "~" } },
  ],
  [
    "the key that signs the token must be unencrypted PEM",
    { rules: { ...hs256, algorithm: "RS256" }, fields: { secret } },
  ],
  [
    "the key that signs the token must be an RSA key",
    { rules: { ...hs256, algorithm: "RS256" }, fields: { secret: p256 } },
  ],
  [
    "the key that signs the token must be an elliptic-curve key on P-256",
    { rules: { ...hs256, algorithm: "ES256" }, fields: { secret: p384 } },
  ],
  [
    "the key that signs the token must be an Ed25519 key",
    { rules: { ...hs256, algorithm: "EdDSA" }, fields: { secret: rsaKey } },
  ],
  [
    "the provider's signing algorithm none is not supported",
    { rules: { ...hs256, algorithm: "none" }, fields: { secret } },
  ],
  [
    "the provider requires credentials.constructor, which is missing",
    { rules: { ...hs256, claims: { a: "${credentials.constructor}" } }, fields: { secret } },
  ],
  [
    "the provider requires credentials.user, which is missing",
    { rules: { ...hs256, claims: { sub: "${credentials.user}" } }, fields: { secret, user: "" } },
  ],
  [
    "the provider requires secret, which is missing",
    { rules: { ...hs256, claims: { a: "${secret}" } }, fields: { secret } },
  ],
  [
    "the provider requires credentials.key as text",
    { rules: { ...hs256, header: { kid: "${credentials.key}" } }, fields: { secret, key: { id: "1" } } },
  ],
])("says that %s", (message, minting) => {
  expect(refusalOf(settingOf(minting))).toBe(message);
});
