import { timestampMs } from "@bufbuild/protobuf/wkt";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Connection_State, ConnectionService } from "../../../src/gen/latchkey/v1/connection_pb.ts";
import { IntegrationService, OAuthApp_Publishing } from "../../../src/gen/latchkey/v1/integration_pb.ts";
import { LogService } from "../../../src/gen/latchkey/v1/log_pb.ts";
import { type Postgres, startPostgres } from "../../support/postgres/postgres.ts";
import { secretKey, startTestSidecar, type TestSidecar } from "../../support/sidecar/harness.ts";
import { lacks } from "../../support/sidecar/needs.ts";
import { provider, startRenewing } from "../../support/sidecar/renewing.ts";

const faultOf = (response: Response) => response.headers.get("latchkey-error");
const day = 86_400_000;

describe("client credentials", () => {
  const machine = "sandbox-client-credentials";

  /** A connection without credentials of its own: it uses the integration's client. */
  async function startMachine() {
    const clock = { ms: Date.now() };
    const now = () => clock.ms;
    const renewing = await startRenewing({ now, sandbox: { now } });
    const { sidecar, sandbox, call } = renewing;
    const integrations = sidecar.client(IntegrationService);
    await integrations.createIntegration({
      integration: {
        key: machine,
        provider: machine,
        oauth: { clientId: "sandbox", scopes: ["drive"] },
        secrets: { clientSecret: "sandbox-secret", webhookSecret: "one" },
      },
    });
    await sidecar.client(ConnectionService).importConnection({
      connection: { integration: machine, id: "ada", credentials: { kind: { case: "oauth2Client", value: {} } } },
    });
    const get = () => call(machine, "/drive/v3/files");
    const change = (secrets: { readonly clientSecret: string } | { readonly webhookSecret: string }) =>
      integrations.updateIntegration({
        integration: { key: machine, secrets },
        updateMask: { paths: ["clientSecret" in secrets ? "secrets.client_secret" : "secrets.webhook_secret"] },
      });
    const lastToken = () => sandbox.seen().last.files?.at(-1)?.headers.authorization;
    return { ...renewing, clock, get, change, lastToken };
  }

  it("are refreshed when their token has expired, and once for all callers", async () => {
    const { get, renewals, clock, lastToken } = await startMachine();
    const all = await Promise.all(Array.from({ length: 50 }, get));
    expect(new Set(all.map(({ status }) => status))).toEqual(new Set([200]));
    expect(renewals()).toBe(1);
    const first = lastToken();
    clock.ms += 2 * 3_600_000;
    expect((await get()).status).toBe(200);
    expect(renewals()).toBe(2);
    expect(lastToken()).not.toBe(first);
  });

  it("O22 have a token of another secret: it is used no more from the moment that the integration's changes", async () => {
    const { sandbox, get, change, renewals, lastToken } = await startMachine();
    expect((await get()).status).toBe(200);
    const first = lastToken();
    // Secrets that the token was not obtained with change nothing.
    await change({ webhookSecret: "another" });
    expect((await get()).status).toBe(200);
    expect([renewals(), lastToken()]).toEqual([1, first]);

    sandbox.register({ id: "sandbox", secret: "another-secret" });
    await change({ clientSecret: "another-secret" });
    // Within a second on a free machine; the token itself lives for an hour.
    await expect
      .poll(async () => ((await get()).status === 200 ? lastToken() : first), { interval: 10, timeout: 20_000 })
      .not.toBe(first);
    for (const _ of [1, 2, 3]) expect((await get()).status).toBe(200);
    expect(renewals()).toBe(2);
  });

  it("O22 are of no use with a wrong secret, though their token would still be good", async () => {
    const { sandbox, get, change, renewals } = await startMachine();
    expect((await get()).status).toBe(200);
    const used = sandbox.seen().requests.files;
    await change({ clientSecret: "mistyped" });
    for (const _ of [1, 2, 3]) {
      const response = await get();
      expect([response.status, faultOf(response)]).toEqual([424, "integration_misconfigured"]);
    }
    expect([renewals(), sandbox.seen().requests.files]).toEqual([2, used]);
    await change({ clientSecret: "sandbox-secret" });
    expect((await get()).status).toBe(200);
  });

  it("O22 keep their token over a restart with the same secret", async () => {
    const { sidecar, sandbox, beside, get, renewals } = await startMachine();
    expect((await get()).status).toBe(200);
    await sidecar.stop();
    const again = await beside({ folder: sidecar.folder });
    const headers = { authorization: `Bearer ${secretKey}`, "provider-config-key": machine, "connection-id": "ada" };
    expect((await fetch(`${again.data}/proxy/drive/v3/files`, { headers })).status).toBe(200);
    expect([renewals(), sandbox.seen().requests.files]).toEqual([1, 2]);
  });
});

it("O26 explains to the operator that a grant died after seven days because the app is in testing", async () => {
  let now = Date.now();
  const { sidecar, connectAda, get, show, renewals } = await startRenewing({
    now: () => now,
    sandbox: { now: () => now, behaviour: { refreshTokenLifetimeS: 604_800 } },
    refreshTokens: { testing_lifetime: "604800s" },
  });
  await connectAda({ expiresInS: 3_600 });
  await sidecar.client(IntegrationService).updateIntegration({
    integration: { key: provider, oauth: { publishing: OAuthApp_Publishing.TESTING } },
    updateMask: { paths: ["oauth.publishing"] },
  });
  for (let i = 0; i < 6; i += 1) {
    now += day;
    expect((await get()).status).toBe(200);
  }
  expect(renewals()).toBe(6);
  now += day + 3_600_000;
  const refused = await get();
  expect([refused.status, faultOf(refused)]).toEqual([424, "reauthorization_required"]);
  expect((await get()).status).toBe(424);
  expect(renewals()).toBe(7);
  const { errors } = await show("&credentials=false");
  const { connection } = await sidecar.client(ConnectionService).getConnection({
    ref: { environment: "dev", integration: provider, id: "ada" },
  });
  expect(connection).toMatchObject({
    state: Connection_State.REAUTHORIZATION_REQUIRED,
    stateReason: "testing_grant_expired",
  });
  const { log } = await sidecar.client(LogService).getLog({ environment: "dev", id: errors[0].log_id });
  expect(JSON.stringify(log?.lines.map(({ fields }) => fields))).toContain("publish the app");
});

describe("O11 a provider whose token lives", () => {
  const rows = [
    ["0 seconds", { fields: { expires_in: 0 } }, 0],
    ["-1 seconds", { fields: { expires_in: -1 } }, 0],
    ['"1e9" seconds', { fields: { expires_in: "1e9" } }, 10 * 365 * day],
    ["for a time nobody tells", { omit: ["expires_in"] }, undefined],
  ] as const;

  it.each(rows)("%s is requested once for all callers, and its refusal is final", async (_, tokenAnswer, livesMs) => {
    let now = Date.now();
    const { sandbox, sidecar, connectAda, get, renewals } = await startRenewing({
      now: () => now,
      sandbox: { now: () => now, behaviour: { tokenAnswer: structuredClone(tokenAnswer) as object } },
    });
    await connectAda();
    for (let i = 0; i < 4; i += 1) {
      const all = await Promise.all(Array.from({ length: 50 }, () => get()));
      expect(new Set(all.map(({ status }) => status))).toEqual(new Set([200]));
    }
    // A token that is expired on arrival is used by its waiting callers, and by no later ones. Fifty callers that
    // arrive at different times on a busy machine may need a few tokens.
    expect(renewals()).toBeGreaterThanOrEqual(livesMs === 0 ? 4 : 1);
    expect(renewals()).toBeLessThanOrEqual(livesMs === 0 ? 40 : 1);
    const first = renewals();
    const { credentials } = await sidecar.client(ConnectionService).getConnection({
      ref: { environment: "dev", integration: provider, id: "ada" },
      includeCredentials: true,
    });
    const expiresAt = credentials?.kind.case === "oauth2" ? credentials.kind.value.expiresAt : undefined;
    if (livesMs === undefined) expect(expiresAt).toBeUndefined();
    else expect(Math.abs((expiresAt === undefined ? 0 : timestampMs(expiresAt)) - now - livesMs)).toBeLessThan(4 * day);

    // Showing the credentials refreshed those that had expired.
    const shown = renewals();
    expect(shown).toBe(livesMs === 0 ? first + 1 : 1);
    now += 31_000;
    expect((await get()).status).toBe(200);
    expect(renewals()).toBe(livesMs === 0 ? shown + 1 : 1);
    now += 31_000;
    sandbox.behave({ answers: { files: [{ kind: "error", status: 401, error: "invalid_token", times: 1 }] } });
    expect((await get()).status).toBe(200);
    const asked = renewals();
    expect(asked).toBe(livesMs === 0 ? shown + 3 : 2);
    // If the provider rejects every token, the caller gets its response: a token that should be valid is replaced
    // twice a minute at most.
    sandbox.behave({ answers: { files: [{ kind: "error", status: 401, error: "invalid_token" }] } });
    const since = performance.now();
    for (let i = 0; i < 3; i += 1) expect((await get()).status).toBe(401);
    const most = livesMs === 0 ? Math.ceil((performance.now() - since) / 1_000) + 1 : 0;
    expect(renewals() - asked).toBeLessThanOrEqual(most);
  });
});

describe.skipIf(lacks("postgres"))("unused connections", () => {
  let server: Postgres;
  beforeAll(async () => {
    server = await startPostgres();
  });
  afterAll(() => server.stop());

  it("are refreshed after half of their idle lifetime: once, by one replica, a batch at a time", async () => {
    let now = Date.now();
    const { sandbox, sidecar, beside, connectAda, renewals } = await startRenewing({
      now: () => now,
      env: { LATCHKEY_STORE: server.storeUrl("resting") },
      sandbox: { now: () => now, behaviour: { maxRefreshTokens: 100_000 } },
      refreshTokens: { idle_lifetime: `${14 * 86_400}s`, use: "USE_ROTATES" },
    });
    const other = await beside();
    await connectAda({ expiresInS: 3_600 });
    const importAs = async (ids: readonly string[]) => {
      const connections = ids.map((id) => {
        const { access_token: accessToken, refresh_token: refreshToken } = sandbox.grant();
        const credentials = { kind: { case: "oauth2" as const, value: { accessToken, refreshToken } } };
        return { integration: provider, id, credentials };
      });
      const { results } = await sidecar.client(ConnectionService).batchImportConnections({ connections });
      expect(results.filter(({ problem }) => problem !== undefined)).toEqual([]);
    };
    const numbered = (name: string, count: number) =>
      Array.from({ length: count }, (_, i) => `${name}${String(i).padStart(4, "0")}`);
    await importKeyed(sidecar);
    await importAs(numbered("zz", 20));
    const bothKeepHouse = () => Promise.all([sidecar, other].map((one) => one.sidecar.broker.keepHouse()));
    now += 7 * day - 60_000;
    await bothKeepHouse();
    expect(renewals()).toBe(0);
    // The next scan begins some minutes later.
    now += 120_000;
    await bothKeepHouse();
    expect(renewals()).toBe(0);
    // As many connections that are not due as one scan reads lie between the first and the others.
    for (let i = 0; i < 1_600; i += 400) await importAs(numbered(`m${i}-`, 400));
    now += 0.2 * day;
    await bothKeepHouse();
    expect(renewals()).toBe(1);
    await bothKeepHouse();
    expect(renewals()).toBe(21);
    for (const _ of [1, 2, 3]) await bothKeepHouse();
    expect(renewals()).toBe(21);
    expect(sandbox.seen().tallies.supersededReused).toBe(0);
  });
});

it("keeps house where the provider of a connection is gone", async () => {
  let now = Date.now();
  const refreshTokens = { idle_lifetime: `${14 * 86_400}s`, use: "USE_ROTATES" };
  const { sidecar, connectAda } = await startRenewing({ now: () => now, sandbox: { now: () => now }, refreshTokens });
  await connectAda({ expiresInS: 3_600 });
  await importKeyed(sidecar);
  await sidecar.stop();
  const without = await startTestSidecar({ folder: sidecar.folder, now: () => now });
  for (let round = 0; round < 10; round += 1) {
    now += 60_000;
    await without.sidecar.broker.keepHouse();
  }
  expect(without.logged.filter((line) => line.includes("housekeeping failed"))).toEqual([]);
});

/** Connections that stay valid without use, and come first in a scan. */
async function importKeyed({ client }: TestSidecar): Promise<void> {
  const integration = "a-keys";
  await client(IntegrationService).createIntegration({
    integration: { key: integration, provider: "example-api-key" },
  });
  const credentials = { kind: { case: "apiKey" as const, value: { apiKey: "a key" } } };
  const connections = ["k1", "k2", "k3"].map((id) => ({ integration, id, credentials }));
  const { results } = await client(ConnectionService).batchImportConnections({ connections });
  expect(results.filter(({ problem }) => problem !== undefined)).toEqual([]);
}
