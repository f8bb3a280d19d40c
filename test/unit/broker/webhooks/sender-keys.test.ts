import { generateKeyPairSync, X509Certificate } from "node:crypto";
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { expect, it } from "vitest";
import { RequestFailed, type SendSmallRequest, type SmallRequest } from "../../../../src/base/small-requests.ts";
import type { World } from "../../../../src/base/world.ts";
import { createSenderKeys } from "../../../../src/broker/webhooks/sender-keys.ts";
import { readSenderKey, senderKeyTarget } from "../../../../src/core/notifications/sender-key.ts";
import { SenderKeyRequestSchema } from "../../../../src/gen/latchkey/v1/provider_pb.ts";
import { reading } from "../../../support/wire/notifications.ts";

type Rules = MessageInitShape<typeof SenderKeyRequestSchema>;

const rulesOf = (init: Rules) => create(SenderKeyRequestSchema, init);
const targetOf = (init: Rules, headers: Record<string, string>, settings?: (name: string) => string | undefined) =>
  senderKeyTarget(rulesOf(init), { reading: reading({ headers }), settings });

const byId: Rules = { url: "https://api.provider.test/keys/${keyId}", keyId: { header: "x-key" }, path: "key" };
const byUrl: Rules = { urlValue: { header: "x-url" }, hosts: ["sns.*.provider.test", "api.provider.test"] };

it("asks only the hosts of the description, whatever a notification says", () => {
  expect(targetOf(byId, { "x-key": "k-1" })?.url).toBe("https://api.provider.test/keys/k-1");
  expect(targetOf(byId, { "x-key": "a/b?c" })).toBeUndefined();
  expect(targetOf(byId, { "x-key": "a/b" })?.url).toBe("https://api.provider.test/keys/a%2Fb");
  for (const id of ["", ".", "..", "a b", "a\nb", "é", "x".repeat(201)]) {
    expect({ id, target: targetOf(byId, { "x-key": id }) }).toEqual({ id, target: undefined });
  }
  for (const url of ["https://sns.eu-1.provider.test/k.pem", "https://api.provider.test/a?b=c"]) {
    expect(targetOf(byUrl, { "x-url": url })?.url).toBe(url);
  }
  for (const url of [
    "http://api.provider.test/k",
    "https://provider.test/k",
    "https://evil.test/k",
    "https://api.provider.test.evil.test/k",
    "https://evil.test/?https://api.provider.test",
    "https://api.provider.test@evil.test/k",
    "https://api.provider.test:8443/k",
    "https://sns.a.b.provider.test/k",
    "https://sns..provider.test/k",
    "https://x.eu-1.provider.test/k",
    "https://api.provider.test/k#x",
    "https://127.0.0.1/k",
    "//api.provider.test/k",
    "file:///etc/passwd",
    `https://api.provider.test/${"x".repeat(1_000)}`,
  ]) {
    expect({ url, target: targetOf(byUrl, { "x-url": url }) }).toEqual({ url, target: undefined });
  }
});

it("fills a body with values as JSON text, and asks nothing without one of them", () => {
  const rules: Rules = {
    url: "https://api.provider.test/key",
    keyId: { header: "x-key" },
    body: '{"id":"${integration.clientId}","key_id":"${keyId}"}',
  };
  expect(targetOf(rules, { "x-key": "k" }, () => 'a"b')?.body).toBe('{"id":"a\\"b","key_id":"k"}');
  expect(targetOf(rules, { "x-key": "k" }, () => undefined)).toBeUndefined();
});

// A root, an intermediate and a certificate of certs.provider.test, made with openssl for these tests; until 2126.
const root = `-----BEGIN CERTIFICATE-----
MIIBjDCCATKgAwIBAgIUfGNK7VHWM55TKP0gu/fXyvSxNZEwCgYIKoZIzj0EAwIw
FDESMBAGA1UEAwwJVGVzdCBSb290MCAXDTI2MTEyNDAyMzU1M1oYDzIxMjYxMDMx
MDIzNTUzWjAUMRIwEAYDVQQDDAlUZXN0IFJvb3QwWTATBgcqhkjOPQIBBggqhkjO
PQMBBwNCAATITCgZqeC6QLNiKpWnER95ddvIL3zKSTRZIxqT/pMWEAiCFBefzgJW
gdIxnJdJ4uHcVE+dGQgA5H4xtquPy3vJo2AwXjAdBgNVHQ4EFgQUGc9gjaluQ2U3
41rdriYIIrn0RrowHwYDVR0jBBgwFoAUGc9gjaluQ2U341rdriYIIrn0RrowDwYD
VR0TAQH/BAUwAwEB/zALBgNVHQ8EBAMCAgQwCgYIKoZIzj0EAwIDSAAwRQIgGDpv
RxqepseNw/sLsNbjlaPGvqvaxZq4ABNWVbMcacQCIQC21W7+lWzQ0lBhS/No7SsG
a7i5HQjq6kvp8SslhHnwoA==
-----END CERTIFICATE-----`;
const middle = `-----BEGIN CERTIFICATE-----
MIIBlDCCATqgAwIBAgIUA9WIlArOMERGZYbrDmribmkw4c8wCgYIKoZIzj0EAwIw
FDESMBAGA1UEAwwJVGVzdCBSb290MCAXDTI2MTEyNDAyMzU1NFoYDzIxMjYxMDMx
MDIzNTU0WjAcMRowGAYDVQQDDBFUZXN0IEludGVybWVkaWF0ZTBZMBMGByqGSM49
AgEGCCqGSM49AwEHA0IABMljjIuEaVchy3ynLYyDwA5K0j/lN3QTKdzkVGvGD0/H
o2DBgqRuxkFLyhCIbstHZu9aPKKswpPnFw7jRXbXJkajYDBeMA8GA1UdEwEB/wQF
MAMBAf8wCwYDVR0PBAQDAgIEMB0GA1UdDgQWBBROnv214gNOyR6Rx0uHFL1WOBum
3DAfBgNVHSMEGDAWgBQZz2CNqW5DZTfjWt2uJggiufRGujAKBggqhkjOPQQDAgNI
ADBFAiEAtmU4Xq0+NaAz6BSuIpi5xAELx8Yu8WhGcpg8k20116YCIDD7ahrHoVdy
YCVQlba2EzSCPfprBT1ltFiPcD/U0s6O
-----END CERTIFICATE-----`;
const leaf = `-----BEGIN CERTIFICATE-----
MIICajCCAhGgAwIBAgIUcPNJWvLPbfzVwMsx/YjIIbhtVh0wCgYIKoZIzj0EAwIw
HDEaMBgGA1UEAwwRVGVzdCBJbnRlcm1lZGlhdGUwIBcNMjYxMTI0MDIzNTU1WhgP
MjEyNjEwMzEwMjM1NTVaMB4xHDAaBgNVBAMME2NlcnRzLnByb3ZpZGVyLnRlc3Qw
ggEiMA0GCSqGSIb3DQEBAQUAA4IBDwAwggEKAoIBAQDm0Op4iO3s66wmm3XS0N4z
jFeR/s2MWKVYkfHBTj4NruI+HyENWkLImvLM4rngJn3r8iKnOh+/z7tGQANZ1d+f
EHwugaNGRBJYETFlU65vZxRTYRkfXwslGFK5C8wt/3USc9QcAh8zSYCzDHIszJbL
fY3LhYO4s2FDwvPzFHvQRnZUMSEvvPLZKX/GTxEdwNRw6TJSgp3swuj6v9zOKRYB
hqqmT7F4ELhQKi8MKyoe3dMeOCaxQPTko7y9iOAXajbMNdT5TcqgQTvOGwYKdS3a
y5R6iGcQDoRB8NTzmA5lhegOPUh4iDs70vd9NPDZCM6g7scgrZut+aU1+xJX8VT3
AgMBAAGjYjBgMB4GA1UdEQQXMBWCE2NlcnRzLnByb3ZpZGVyLnRlc3QwHQYDVR0O
BBYEFI4v60Qr1eIotEoLnLeB7GJVjJkCMB8GA1UdIwQYMBaAFE6e/bXiA07JHpHH
S4cUvVY4G6bcMAoGCCqGSM49BAMCA0cAMEQCIDmZjugG9SdvNTJQO8kRK4JS4/td
E/IHq1FvBIGRBq4oAiAUXH0YNL4GcBakMDEraHS9ncuUGYJr3JXGvea3vuV9yQ==
-----END CERTIFICATE-----`;

it("trusts a certificate only with its name, its chain and its time", () => {
  const rules = rulesOf({ format: "certificate", certificateNames: ["certs.provider.test"] });
  const nowMs = Date.parse("2026-12-01T00:00:00Z");
  const roots = [new X509Certificate(root)];
  const read = (text: string, more: Partial<Parameters<typeof readSenderKey>[2]> = {}, of = rules) =>
    readSenderKey(Buffer.from(text), of, { algorithm: "rsa_sha256", nowMs, roots, ...more })?.key.asymmetricKeyType;
  expect(read(`${leaf}\n${middle}`)).toBe("rsa");
  expect(read(`${leaf}\n${middle}\n${root}`)).toBe("rsa");
  for (const chain of [leaf, `${middle}\n${leaf}`, `${leaf}\n${root}`, root, "", "-----BEGIN CERTIFICATE-----"]) {
    expect({ chain, type: read(chain) }).toEqual({ chain, type: undefined });
  }
  expect(read(`${leaf}\n${middle}`, { roots: [] })).toBeUndefined();
  expect(readSenderKey(Buffer.from(`${leaf}\n${middle}`), rules, { algorithm: "rsa_sha256", nowMs })).toBeUndefined();
  expect(read(`${leaf}\n${middle}`, { nowMs: Date.parse("2026-11-01T00:00:00Z") })).toBeUndefined();
  expect(read(`${leaf}\n${middle}`, { nowMs: Date.parse("2127-01-01T00:00:00Z") })).toBeUndefined();
  expect(read(`${leaf}\n${middle}`, { algorithm: "ecdsa_p256_sha256" })).toBeUndefined();
  const other = rulesOf({ format: "certificate", certificateNames: ["other.provider.test"] });
  expect(read(`${leaf}\n${middle}`, {}, other)).toBeUndefined();
  // Without names, the TLS of the host is trusted: a sender may publish no chain.
  expect(read(leaf, {}, rulesOf({ format: "certificate" }))).toBe("rsa");
  expect(read(middle, {}, rulesOf({ format: "certificate" }))).toBeUndefined();
});

const pem = generateKeyPairSync("ed25519").publicKey.export({ type: "spki", format: "pem" }).toString();

function keysWith(answer: (request: SmallRequest) => { status: number; body?: string }) {
  const asked: SmallRequest[] = [];
  let now = Date.parse("2026-12-01T00:00:00Z");
  const send: SendSmallRequest = async (request) => {
    asked.push(request);
    await new Promise((done) => setImmediate(done));
    const { status, body = "" } = answer(request);
    if (status === 0)
      throw new RequestFailed({ reason: "refused", mayHaveArrived: false, status: undefined }, "refused");
    return { status, header: () => undefined, fields: [], body: Buffer.from(body) };
  };
  const log = { warn() {} };
  const world = { now: () => now, log } as unknown as World;
  const keys = createSenderKeys({ send, clientToken: async ({ integration }) => `token-of-${integration}`, world });
  const of = (id: string, integration = "hook", rules: Rules = byId) => {
    const target = targetOf(rules, { "x-key": id });
    if (target === undefined) throw new Error("the key has no target");
    return keys.of({ environment: "dev", integration })(target, "ed25519");
  };
  return {
    asked,
    of,
    later: (ms: number) => {
      now += ms;
    },
  };
}
const good = { status: 200, body: JSON.stringify({ key: pem }) };

it("fetches a key once for all who wait, without credentials, and again after an hour", async () => {
  const { asked, of, later } = keysWith(() => good);
  const found = await Promise.all(Array.from({ length: 50 }, () => of("k-1")));
  expect(found.every((key) => key?.asymmetricKeyType === "ed25519")).toBe(true);
  expect(asked).toEqual([
    { url: "https://api.provider.test/keys/k-1", method: "GET", headers: { accept: "application/json" } },
  ]);
  later(3_599_000);
  await of("k-1");
  expect(asked).toHaveLength(1);
  later(2_000);
  await of("k-1");
  expect(asked).toHaveLength(2);
});

it("limits the fetches that forged notifications cause, and keeps known keys usable", async () => {
  const { asked, of, later } = keysWith(({ url }) => (url.endsWith("k-1") ? good : { status: 404 }));
  expect((await of("k-1"))?.type).toBe("public");
  later(3_601_000);
  const forged = await Promise.allSettled(Array.from({ length: 200 }, (_, i) => of(`forged-${i}`)));
  expect(asked).toHaveLength(31);
  expect(forged.filter(({ status }) => status === "rejected")).toHaveLength(170);
  // The limit is reached: the known key is used although it is old. Another integration has its own limit.
  expect((await of("k-1"))?.type).toBe("public");
  expect((await of("k-1", "other"))?.type).toBe("public");
  later(60_000);
  expect((await of("k-1"))?.type).toBe("public");
  expect(asked).toHaveLength(33);
});

it("uses a known key while the provider is away, and obeys when it withdraws one", async () => {
  let answer = good as { status: number; body?: string };
  const { of, later, asked } = keysWith(() => answer);
  await of("k-1");
  later(3_601_000);
  for (const status of [0, 500, 302]) {
    answer = { status };
    expect((await of("k-1"))?.type).toBe("public");
    later(11_000);
  }
  expect(asked).toHaveLength(4);
  answer = { status: 404 };
  expect(await of("k-1")).toBeUndefined();
  answer = { status: 0 };
  await expect(of("k-2")).rejects.toThrow("try again later");
  for (const body of ["", "{}", '{"key":1}', '{"key":"x"}', "["]) {
    answer = { status: 200, body };
    expect(await of(`k-${body.length}-x`)).toBeUndefined();
  }
});

it("asks with the OAuth app's token where the description says so", async () => {
  const { asked, of } = keysWith(() => good);
  expect((await of("k-1", "hook", { ...byId, authorization: "client" }))?.type).toBe("public");
  expect(asked.map(({ headers }) => headers)).toEqual([
    { accept: "application/json", authorization: "Bearer token-of-hook" },
  ]);
});
