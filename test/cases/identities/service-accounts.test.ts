import { createHmac } from "node:crypto";
import { describe, expect, it } from "vitest";
import { EnvironmentService } from "../../../src/gen/latchkey/v1/environment_pb.ts";
import { Integration_UseRecord, IntegrationService } from "../../../src/gen/latchkey/v1/integration_pb.ts";
import { TrafficService } from "../../../src/gen/latchkey/v1/traffic_pb.ts";
import { callProvider, headersWith, outcomeOf, reload, startIdentified } from "../../support/identities/callers.ts";
import { account, type Issuer, type IssuerAlgorithm, startIssuer } from "../../support/identities/issuer.ts";
import type { ProxiedSidecar } from "../../support/peers/provider.ts";
import { secretKey } from "../../support/sidecar/harness.ts";
import { call } from "../../support/wire/proxy-call.ts";
import { auditOf } from "../edges/edge-audit.ts";

const checkout = { service_account: "shop/checkout", environment: "dev" };
const issuerOf = ({ url }: Issuer, more: object = {}) => ({
  name: "cluster",
  issuer: url,
  audience: "latchkey",
  ...more,
});
const start = (issuer: Issuer, rules: readonly object[] = [checkout], more: object = {}) =>
  startIdentified({ issuers: [issuerOf(issuer, more)], rules });

const now = () => Math.floor(Date.now() / 1_000);
const textOf = (value: unknown) => Buffer.from(JSON.stringify(value)).toString("base64url");
const outcome = async (sidecar: ProxiedSidecar, token: string) => outcomeOf(await callProvider(sidecar, token));

it("needs no key for the right service account: on the proxy, JSON routes and RPCs", async () => {
  const issuer = await startIssuer();
  const sidecar = await start(issuer, [{ ...checkout, scopes: ["proxy", "connections:read"] }]);
  const token = issuer.token();
  // On a busy machine the first request may wait for the issuer's keys for too long.
  const statusNow = async () => (await callProvider(sidecar, token)).status;
  await expect.poll(statusNow, { timeout: 60_000 }).toBe(200);
  for (const place of [
    { authorization: `Bearer ${token}` },
    { "latchkey-key": token, authorization: "Bearer something-else" },
    { "proxy-authorization": `Bearer ${token}` },
    { authorization: `Basic ${Buffer.from(`${token}:x`).toString("base64")}` },
    { authorization: `Basic ${Buffer.from(`api:${token}`).toString("base64")}` },
  ]) {
    expect((await callProvider(sidecar, undefined, place)).status, Object.keys(place).join()).toBe(200);
  }
  expect((await sidecar.rest("GET", "/connections", { key: token })).status).toBe(200);
  expect(
    (await sidecar.rest("DELETE", "/connections/ada?provider_config_key=here", { key: token })).body,
  ).toMatchObject({
    error: { message: "the identity service_account shop/checkout@cluster does not have the scope connections:write" },
  });
  const caller = await sidecar.client(EnvironmentService, token).getCaller({});
  expect(caller).toMatchObject({ keyId: "service_account shop/checkout@cluster", environment: "dev" });
  await expect(sidecar.client(EnvironmentService, token).listKeys({})).rejects.toThrow("does not have the scope admin");
  // No provider gets to see the token.
  expect(sidecar.logged.join("")).not.toContain(token.split(".")[1]);
});

it.each(["ES256", "PS256", "ES384", "EdDSA"] as const satisfies readonly IssuerAlgorithm[])(
  "verifies tokens that are signed with %s",
  async (algorithm) => {
    const issuer = await startIssuer(algorithm);
    const sidecar = await start(issuer);
    expect((await callProvider(sidecar, issuer.token())).status).toBe(200);
    const [head = "", claims = "", signature = ""] = issuer.token().split(".");
    const changed = `${signature.slice(0, 20)}${signature[20] === "A" ? "B" : "A"}${signature.slice(21)}`;
    expect(await outcome(sidecar, [head, claims, changed].join("."))).toMatchObject({ status: 401 });
  },
);

describe("a token that proves nothing", () => {
  let issuer: Issuer;
  let sidecar: ProxiedSidecar;
  const wrong: Readonly<Record<string, readonly [(one: Issuer) => string, RegExp]>> = {
    "for another audience": [
      (one) => one.token({ aud: ["vault"] }),
      /is for another audience than `identities.issuers.0`/,
    ],
    "of another issuer": [(one) => one.token({ iss: "https://other.test" }), /is from another issuer/],
    "of another namespace": [
      (one) => one.token({ sub: "system:serviceaccount:shopping:checkout" }),
      /no rule of `identities.rules` allows shopping\/checkout@cluster/,
    ],
    "of another account": [
      (one) => one.token({ sub: "system:serviceaccount:shop:cart" }),
      /no rule .* shop\/cart@cluster/,
    ],
    "of no account": [(one) => one.token({ sub: "alice" }), /is not one of a Kubernetes service account/],
    "that expired a second ago": [(one) => one.token({ exp: now() - 1 }), /has expired/],
    "that expires now": [(one) => one.token({ exp: now() }), /has expired/],
    "without an end": [(one) => one.token({ exp: undefined }), /has expired/],
    "that begins later": [(one) => one.token({ nbf: now() + 90 }), /is not valid yet/],
    "with the algorithm none": [(one) => one.token({}, { alg: "none" }), /must be a JWT that is signed with RS256, /],
    "signed with HS256 and the public key": [
      (one) => {
        const content = `${textOf({ alg: "HS256", kid: "key-1" })}.${one.token().split(".")[1]}`;
        return `${content}.${createHmac("sha256", one.publicKey).update(content).digest("base64url")}`;
      },
      /must be a JWT that is signed with/,
    ],
    "that names another algorithm than its key's": [(one) => one.token({}, { alg: "PS256" }), /has a wrong signature/],
    "of a key that was never published": [(one) => one.token({}, { kid: "key-99" }), /does not publish/],
    "without a key's ID": [(one) => one.token({}, { kid: undefined }), /does not name its key/],
    "that is huge": [(one) => one.token({ pad: "x".repeat(9_000) }), /must have at most 8192 characters/],
    "with other claims than were signed": [
      (one) => {
        const [head, , signature] = one.token({ sub: "system:serviceaccount:shop:cart" }).split(".");
        return `${head}.${one.token().split(".")[1]}.${signature}`;
      },
      /has a wrong signature/,
    ],
  };

  it("is refused with 401, which says what did not fit and does not quote it", async () => {
    issuer = await startIssuer();
    sidecar = await start(issuer);
    for (const [what, [make, expected]] of Object.entries(wrong)) {
      const token = make(issuer);
      const { status, code, message } = await outcome(sidecar, token);
      expect({ what, status, code }).toEqual({ what, status: 401, code: "identity_refused" });
      expect(message, what).toMatch(expected);
      expect((await sidecar.rest("GET", "/connections", { key: token })).status, what).toBe(401);
      const secret = token.split(".")[1]?.slice(0, 60) ?? "";
      expect(`${message}${sidecar.logged.join("")}`, what).not.toContain(secret);
    }
    expect((await callProvider(sidecar, issuer.token())).status).toBe(200);
  });
});

it("refuses a token from its end on, to the millisecond, although it was used before", async () => {
  const issuer = await startIssuer();
  let clock = Date.now();
  const sidecar = await startIdentified({ issuers: [issuerOf(issuer)], rules: [checkout] }, { now: () => clock });
  const exp = now() + 600;
  const token = issuer.token({ exp });
  expect((await callProvider(sidecar, token)).status).toBe(200);
  clock = exp * 1_000 - 1;
  expect((await callProvider(sidecar, token)).status).toBe(200);
  clock = exp * 1_000;
  expect(await outcome(sidecar, token)).toMatchObject({ status: 401, message: expect.stringMatching(/has expired/) });
});

it("takes a changed configuration into account with the next request", async () => {
  const issuer = await startIssuer();
  const sidecar = await start(issuer);
  const token = issuer.token();
  expect((await callProvider(sidecar, token)).status).toBe(200);
  const issuers = [issuerOf(issuer)];
  await reload(sidecar, { issuers, rules: [{ ...checkout, limits: { methods: ["POST"] } }] });
  expect(await outcome(sidecar, token)).toMatchObject({ status: 403, code: "not_in_session" });
  // The keys that are known stay, whatever the issuer does.
  issuer.status = 503;
  await reload(sidecar, { issuers, rules: [{ service_account: "shop/*", environment: "dev" }] });
  expect((await callProvider(sidecar, token)).status).toBe(200);
  await reload(sidecar, { issuers, rules: [] });
  expect(await outcome(sidecar, token)).toMatchObject({ status: 401, code: "identity_refused" });
  await reload(sidecar, {});
  expect(await outcome(sidecar, token)).toMatchObject({ status: 401, code: "unknown_key" });
});

it("loses no request while the issuer rotates its keys", async () => {
  const issuer = await startIssuer("ES256");
  const sidecar = await start(issuer);
  let token = issuer.token();
  let isOver = false;
  const statuses = new Map<number, number>();
  const callAll = async () => {
    while (!isOver) {
      const { status } = await callProvider(sidecar, token);
      statuses.set(status, (statuses.get(status) ?? 0) + 1);
    }
  };
  const callers = Array.from({ length: 8 }, callAll);
  for (let i = 0; i < 4; i += 1) {
    const before = statuses.get(200) ?? 0;
    issuer.rotate(true);
    token = issuer.token();
    await expect.poll(() => statuses.get(200) ?? 0).toBeGreaterThan(before + 40);
  }
  isOver = true;
  await Promise.all(callers);
  expect([...statuses.keys()]).toEqual([200]);
  // One or two sets for the start and for each rotation; each takes two requests.
  expect(issuer.requests.length).toBeLessThanOrEqual(20);
});

it("keeps what it knows while the issuer is away, and says that it cannot judge other tokens", async () => {
  const issuer = await startIssuer();
  const sidecar = await start(issuer);
  const [old, other] = [issuer.token(), issuer.token({ jti: "2" })];
  expect((await callProvider(sidecar, old)).status).toBe(200);
  issuer.status = 503;
  expect((await callProvider(sidecar, old)).status).toBe(200);
  expect((await callProvider(sidecar, other)).status).toBe(200);
  issuer.rotate(true);
  const [first, second] = await Promise.all([outcome(sidecar, issuer.token()), outcome(sidecar, issuer.token())]);
  expect([first, second]).toMatchObject([{ status: 503, code: "identity_keys_unavailable" }, { status: 503 }]);
  expect(sidecar.logged.join("")).toContain("answered with the status 503");
  issuer.status = 200;
  await expect.poll(async () => (await callProvider(sidecar, issuer.token())).status).toBe(200);
  expect((await callProvider(sidecar, old)).status).toBe(200);
});

it("prefers the first rule that fits, and the issuer that a rule names", async () => {
  const [east, west] = [await startIssuer(), await startIssuer()];
  const issuers = [issuerOf(east, { name: "east" }), issuerOf(west, { name: "west" })];
  const sidecar = await startIdentified({
    issuers,
    rules: [
      { service_account: "shop/*", issuer: "west", environment: "dev", limits: { methods: ["GET"] } },
      { service_account: "shop/checkout", issuer: "west", environment: "dev" },
      { service_account: "shop/checkout", issuer: "east", environment: "dev" },
    ],
  });
  const post = async (token: string) =>
    (await call(`${sidecar.data}/proxy/x`, { method: "POST", headers: headersWith(token) })).status;
  expect(await post(west.token())).toBe(403);
  expect(await post(east.token())).toBe(200);
  // A cluster does not vouch for another one.
  expect(await outcome(sidecar, west.token({ iss: east.url }))).toMatchObject({ status: 401 });
  const namesake = { iss: west.url, sub: account };
  expect(await outcome(sidecar, east.token(namesake))).toMatchObject({ status: 401 });
});

it("is named in the audit trail, in use records and among the last requests", async () => {
  const issuer = await startIssuer();
  const sidecar = await start(issuer, [{ ...checkout, scopes: ["proxy", "connections:write"] }]);
  const name = "service_account shop/checkout@cluster";
  await sidecar.client(IntegrationService).updateIntegration({
    integration: { environment: "dev", key: "here", useRecord: Integration_UseRecord.HOST },
    updateMask: { paths: ["use_record"] },
  });
  const body = { provider_config_key: "here", connection_id: "bob", credentials: { type: "API_KEY", apiKey: "k" } };
  expect((await sidecar.rest("POST", "/connections", { key: issuer.token(), body })).status).toBe(201);
  expect((await callProvider(sidecar, issuer.token())).status).toBe(200);
  expect(await auditOf(sidecar, "connection.import")).toMatchObject([{ actor: name }, {}]);
  const used = () => sidecar.logged.map((line) => JSON.parse(line)).find(({ msg }) => msg === "a connection was used");
  await expect.poll(used).toMatchObject({ identity: name, connection: "ada", status: 200 });
  expect(used()).not.toHaveProperty("key");
  const { requests } = await sidecar.client(TrafficService).listRequests({ environment: "dev" });
  expect(requests.map(({ keyId }) => keyId)).toContain(name);
});

it("counts a key before any identity, and never shows credentials to a limited one", async () => {
  const issuer = await startIssuer();
  const sidecar = await start(issuer, [
    { ...checkout, scopes: ["proxy", "connections:read"], limits: { methods: ["GET"] } },
  ]);
  expect((await callProvider(sidecar, issuer.token({ sub: "x" }), { "latchkey-key": secretKey })).status).toBe(200);
  const { body } = await sidecar.rest("GET", "/connections/ada?provider_config_key=here", { key: issuer.token() });
  expect(JSON.stringify(body)).not.toContain("the-key-of-ada");
});
