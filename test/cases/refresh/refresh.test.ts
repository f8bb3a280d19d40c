import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { ConnectionService } from "../../../src/gen/latchkey/v1/connection_pb.ts";
import { IntegrationService } from "../../../src/gen/latchkey/v1/integration_pb.ts";
import { startStopwatch } from "../../support/runner/stopwatch.ts";
import { secretKey } from "../../support/sidecar/harness.ts";
import { provider, startRenewing } from "../../support/sidecar/renewing.ts";

const faultOf = (response: Response) => response.headers.get("latchkey-error");

describe("a refresh", () => {
  it("comes before the first use of credentials that have run out, and is written down before that use", async () => {
    const { sandbox, connectAda, get, show, renewals } = await startRenewing();
    const { access_token, refresh_token } = await connectAda();
    const response = await get();
    expect(response.status).toBe(200);
    expect(renewals()).toBe(1);
    const { credentials } = await show("&refresh_token=true");
    expect(credentials.access_token).not.toBe(access_token);
    expect(credentials.refresh_token).not.toBe(refresh_token);
    const [used] = sandbox.seen().last.files ?? [];
    expect(used?.headers.authorization).toBe(`Bearer ${credentials.access_token}`);
    expect(Date.parse(credentials.expires_at) - Date.now()).toBeGreaterThan(3_500_000);
    expect((await get()).status).toBe(200);
    expect(renewals()).toBe(1);
  });

  it("survives a restart: the rotated token is used next", async () => {
    const first = await startRenewing();
    await first.connectAda();
    expect((await first.get()).status).toBe(200);
    await first.sidecar.stop();
    // The new token has run out as well.
    const later = Date.now() + 7_200_000;
    const second = await first.beside({ folder: first.sidecar.folder, now: () => later });
    const headers = { authorization: `Bearer ${secretKey}`, "provider-config-key": provider, "connection-id": "ada" };
    expect((await fetch(`${second.data}/proxy/drive/v3/files`, { headers })).status).toBe(200);
    expect(first.sandbox.seen().tallies.supersededReused).toBe(0);
    expect(first.renewals()).toBe(2);
  });

  it("names the scopes that it took away, until they are given back", async () => {
    const hourMs = 3_600_000;
    const all = await startRenewing();
    await all.connectAda();
    let running = all.sidecar;
    let later = Date.now();
    async function renewWith(scope: string) {
      all.sandbox.behave({ tokenAnswer: { fields: { scope } } });
      await running.stop();
      later += 2 * hourMs;
      running = await all.beside({ folder: all.sidecar.folder, now: () => later });
      const headers = { authorization: `Bearer ${secretKey}`, "provider-config-key": provider, "connection-id": "ada" };
      expect((await fetch(`${running.data}/proxy/drive/v3/files`, { headers })).status).toBe(200);
      const ref = { environment: "dev", integration: provider, id: "ada" };
      const { connection } = await running.client(ConnectionService).getConnection({ ref });
      return { granted: connection?.grantedScopes, missing: connection?.missingScopes };
    }
    expect(await renewWith("openid drive")).toEqual({ granted: ["openid", "drive"], missing: [] });
    expect(await renewWith("openid")).toEqual({ granted: ["openid"], missing: ["drive"] });
    expect(await renewWith("drive openid")).toEqual({ granted: ["drive", "openid"], missing: [] });
  });

  it("is started by the control plane too", async () => {
    const { connectAda, sidecar, show, renewals } = await startRenewing();
    const { access_token } = await connectAda({ expiresInS: 3_600 });
    const ref = { environment: "dev", integration: provider, id: "ada" };
    const { connection } = await sidecar.client(ConnectionService).refreshConnection({ ref });
    expect(connection?.ref?.id).toBe("ada");
    expect((await show()).credentials.access_token).not.toBe(access_token);
    expect(renewals()).toBe(1);
  });

  it("starts before the expiry, while the token is still in use", async () => {
    let now = Date.now();
    const { connectAda, get, renewals } = await startRenewing({ now: () => now });
    await connectAda({ expiresInS: 3_600 });
    expect((await get()).status).toBe(200);
    await sleep(100);
    expect(renewals()).toBe(0);
    // A tenth before the end at the latest, a twentieth at the earliest.
    now += 3_500_000;
    expect((await get()).status).toBe(200);
    await expect.poll(renewals).toBe(1);
  });

  it("P42 10,000 at once over one token that has run out ask for one", async () => {
    const { sandbox, sidecar, connectAda, renewals } = await startRenewing({
      sandbox: { behaviour: { answers: { token: [{ kind: "ordinary", holdMs: 300, times: 1 }] } } },
    });
    await connectAda();
    const { live } = sidecar.sidecar.broker;
    const ref = {
      $typeName: "latchkey.v1.ConnectionRef",
      environment: "dev",
      integration: provider,
      id: "ada",
    } as const;
    const inside = Array.from({ length: 10_000 }, () => live.get(ref));
    const headers = { authorization: `Bearer ${secretKey}`, "provider-config-key": provider, "connection-id": "ada" };
    const outside = Array.from({ length: 500 }, () => fetch(`${sidecar.data}/proxy/drive/v3/files`, { headers }));
    const statuses = (await Promise.all(outside)).map(({ status }) => status);
    expect(statuses).toEqual(Array(500).fill(200));
    const tokens = new Set(
      (await Promise.all(inside)).map(({ credentials: { kind } }) =>
        kind.case === "oauth2" ? kind.value.accessToken : "",
      ),
    );
    expect(tokens.size).toBe(1);
    expect(renewals()).toBe(1);
    expect(sandbox.seen().tallies.supersededReused).toBe(0);
  });
});

describe("a provider that rejects a token before its expiry", () => {
  it("gets the request again with other credentials, where asking twice does no harm", async () => {
    const { sandbox, sidecar, connectAda, get, renewals } = await startRenewing({
      sandbox: {
        behaviour: { answers: { files: [{ kind: "error", status: 401, error: "invalid_token", times: 1 }] } },
      },
    });
    await connectAda({ expiresInS: 3_600 });
    const response = await get();
    expect(response.status).toBe(200);
    expect(renewals()).toBe(1);
    expect(sandbox.seen().requests.files).toBe(2);
    expect(await sidecar.metric("latchkey_proxy_refusals_total")).toBe(1);
    expect(await sidecar.metric("latchkey_proxy_open")).toBe(0);
  });

  it("is believed when it rejects the new token too: its response is passed on, once", async () => {
    const { connectAda, get, renewals } = await startRenewing({
      sandbox: { behaviour: { answers: { files: [{ kind: "error", status: 401, error: "invalid_token" }] } } },
    });
    await connectAda({ expiresInS: 3_600 });
    for (const _ of [1, 2, 3]) {
      const response = await get();
      expect(response.status).toBe(401);
      expect(faultOf(response)).toBeNull();
      expect(await response.text()).toContain("invalid_token");
    }
    // At most one in half a minute.
    expect(renewals()).toBe(1);
  });

  it("is not sent an unsafe request twice: its response is passed on, and the next request has new credentials", async () => {
    const { sandbox, connectAda, call, get, renewals } = await startRenewing({
      sandbox: {
        behaviour: { answers: { files: [{ kind: "error", status: 401, error: "invalid_token", times: 1 }] } },
      },
    });
    await connectAda({ expiresInS: 3_600 });
    const response = await call(provider, "/drive/v3/files", { method: "POST", body: "{}" });
    expect(response.status).toBe(401);
    await expect.poll(renewals).toBe(1);
    expect(sandbox.seen().requests.files).toBe(1);
    expect((await get()).status).toBe(200);
  });

  it("has its answer passed on when no others are to be had", async () => {
    const { connectAda, get } = await startRenewing({
      sandbox: {
        behaviour: {
          answers: {
            files: [{ kind: "error", status: 401, error: "invalid_token" }],
            token: [{ kind: "error", status: 503, error: "server_error" }],
          },
        },
      },
    });
    await connectAda({ expiresInS: 3_600 });
    const response = await get();
    expect([response.status, faultOf(response)]).toEqual([401, null]);
    expect(await response.text()).toContain("invalid_token");
  });
});

describe("a provider that gives no token", () => {
  it("O12 sends invalid_grant: no further refresh, and the connection gives the reason", async () => {
    const { sandbox, sidecar, connectAda, get, show, renewals } = await startRenewing();
    await connectAda();
    sandbox.revoke({ user: "ada@example.com" });
    for (let i = 0; i < 1_000; i += 100) {
      const all = await Promise.all(Array.from({ length: 100 }, () => get()));
      expect(new Set(all.map((one) => `${one.status} ${faultOf(one)}`))).toEqual(
        new Set(["424 reauthorization_required"]),
      );
    }
    expect(renewals()).toBe(1);
    const { errors } = await show("&credentials=false");
    expect(errors).toEqual([{ type: "auth", log_id: expect.any(String) }]);
    expect(await sidecar.metric('latchkey_refreshes_total{outcome="grant_dead"}')).toBe(1);
    // New credentials heal it.
    const { access_token, refresh_token } = sandbox.grant();
    await sidecar.rest("POST", "/connections", {
      body: {
        provider_config_key: provider,
        connection_id: "ada",
        credentials: { type: "OAUTH2", access_token, refresh_token },
      },
    });
    expect((await get()).status).toBe(200);
    expect((await show()).errors).toEqual([]);
  });

  it("O13 refuses the client: the integration is at fault, and no connection fails for it", async () => {
    const { sandbox, sidecar, connectAda, renewals } = await startRenewing({
      sandbox: {
        behaviour: { answers: { token: [{ kind: "error", status: 401, error: "invalid_client" }] } },
      },
    });
    await connectAda();
    const expires_at = new Date(Date.now() - 60_000).toISOString();
    const ids = Array.from({ length: 1_000 }, (_, i) => `c${i}`);
    const { access_token, refresh_token } = sandbox.grant();
    const credentials = { type: "OAUTH2", access_token, refresh_token, expires_at };
    await Promise.all(
      ids.map((connection_id) =>
        sidecar.rest("POST", "/connections", { body: { provider_config_key: provider, connection_id, credentials } }),
      ),
    );
    for (const id of ["ada", ...ids.slice(0, 50)]) {
      const response = await fetch(`${sidecar.data}/proxy/drive/v3/files`, {
        headers: { authorization: `Bearer ${secretKey}`, "provider-config-key": provider, "connection-id": id },
      });
      expect([response.status, faultOf(response)]).toEqual([424, "integration_misconfigured"]);
    }
    expect(renewals()).toBe(1);
    const { body } = await sidecar.rest("GET", "/connections?limit=2000");
    expect(body.connections.filter(({ errors }: { errors: unknown[] }) => errors.length > 0)).toEqual([]);
    // A change of the integration clears everything cached for it.
    sandbox.behave({ answers: { token: [] } });
    await sidecar.client(IntegrationService).updateIntegration({
      integration: { key: provider, secrets: { clientSecret: "sandbox-secret" } },
      updateMask: { paths: ["secrets.client_secret"] },
    });
    const response = await fetch(`${sidecar.data}/proxy/drive/v3/files`, {
      headers: { authorization: `Bearer ${secretKey}`, "provider-config-key": provider, "connection-id": "c7" },
    });
    expect(response.status).toBe(200);
  });

  it.each([
    ["429", { kind: "error", status: 429, error: "slow_down", headers: { "retry-after": "7" } }],
    ["500", { kind: "error", status: 500, error: "server_error" }],
    ["a reset before it read", { kind: "reset-before-reading" }],
    ["a reset after it read", { kind: "reset-after-reading" }],
  ] as const)("O14 %s: calls continue with valid tokens, and otherwise get Retry-After", async (_, misstep) => {
    let now = Date.now();
    const { connectAda, get, show, sandbox } = await startRenewing({
      now: () => now,
      sandbox: { now: () => now, behaviour: { answers: { token: [misstep] } } },
    });
    await connectAda({ expiresInS: 3_600 });
    now += 3_550_000;
    for (const _again of [1, 2, 3]) expect((await get()).status).toBe(200);
    now += 60_000;
    const refused = await get();
    expect([refused.status, faultOf(refused)]).toEqual([503, "refresh_unavailable"]);
    expect(Number(refused.headers.get("retry-after"))).toBeGreaterThan(0);
    expect((await show("&credentials=false")).errors).toEqual([]);
    sandbox.behave({ answers: { token: [] } });
    now += 7_200_000;
    expect((await get()).status).toBe(200);
  });

  it.each([
    [10, 200, ""],
    [0, 424, "rotation_response_lost"],
  ])("O15 rotates and drops its answer, with a grace of %i s: %i", async (graceS, status, reason) => {
    const { sandbox, connectAda, get, show, renewals } = await startRenewing({
      sandbox: { behaviour: { graceS, answers: { token: [{ kind: "drop-answer", times: 1 }] } } },
    });
    await connectAda();
    const response = await get();
    expect(response.status).toBe(status);
    expect(renewals()).toBe(2);
    const { supersededReused, supersededInGrace } = sandbox.seen().tallies;
    expect(supersededReused + supersededInGrace).toBe(1);
    if (reason !== "") {
      expect((await get()).status).toBe(424);
      expect((await show("&credentials=false")).errors).toHaveLength(1);
      expect(renewals()).toBe(2);
    }
  });

  it("is down: of a thousand that are due at once, few ask it", async () => {
    const { sandbox, sidecar, connectAda, renewals } = await startRenewing({
      sandbox: { behaviour: { answers: { token: [{ kind: "error", status: 503, error: "server_error" }] } } },
    });
    await connectAda();
    const { access_token, refresh_token } = sandbox.grant();
    const expires_at = new Date(Date.now() - 60_000).toISOString();
    const credentials = { type: "OAUTH2", access_token, refresh_token, expires_at };
    const ids = Array.from({ length: 1_000 }, (_, i) => `c${i}`);
    await Promise.all(
      ids.map((connection_id) =>
        sidecar.rest("POST", "/connections", { body: { provider_config_key: provider, connection_id, credentials } }),
      ),
    );
    const { live } = sidecar.sidecar.broker;
    const asked = ids.map((id) =>
      live.get({ $typeName: "latchkey.v1.ConnectionRef", environment: "dev", integration: provider, id }),
    );
    const outcomes = await Promise.allSettled(asked);
    expect(outcomes.every(({ status }) => status === "rejected")).toBe(true);
    // Those in progress when the fifth had failed, and no more.
    expect(renewals()).toBeLessThanOrEqual(40);
  });

  it("O17 takes 45 seconds: the lease is renewed, and one request is sent", async () => {
    const { connectAda, get, renewals } = await startRenewing({
      sandbox: { behaviour: { answers: { token: [{ kind: "ordinary", holdMs: 45_000, times: 1 }] } } },
    });
    await connectAda();
    const both = await Promise.all([get(), sleep(20_000).then(() => get())]);
    expect(both.map(({ status }) => status)).toEqual([200, 200]);
    expect(renewals()).toBe(1);
  });

  it("is not kept waiting by a clock that was turned back by a day", async () => {
    let now = Date.now() + 86_400_000;
    const { connectAda, get, show, renewals } = await startRenewing({ now: () => now });
    await connectAda();
    expect((await get()).status).toBe(200);
    now -= 86_400_000;
    expect((await show("&force_refresh=true")).credentials.type).toBe("OAUTH2");
    const elapsed = startStopwatch();
    await show("&force_refresh=true");
    expect(renewals()).toBe(3);
    expect(elapsed.ms).toBeLessThan(5_000);
  });
});
