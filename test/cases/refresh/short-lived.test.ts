/** Tokens that live a second or less: a throttle never causes the use of an expired one, and refreshes stay rare. */
import { describe, expect, it } from "vitest";
import { secretKey } from "../../support/sidecar/harness.ts";
import { provider, startRenewing } from "../../support/sidecar/renewing.ts";

type Renewing = Awaited<ReturnType<typeof startRenewing>>;

/** The tokens that the provider's API was sent, in order. */
const tokensUsed = ({ sandbox }: Renewing): readonly string[] =>
  (sandbox.seen().last.files ?? []).map(({ headers }) => String(headers.authorization));

async function callFor(ms: number, { callers, get }: { readonly callers: number; readonly get: Renewing["get"] }) {
  const counted = new Map<number, number>();
  const until = performance.now() + ms;
  const call = async () => {
    while (performance.now() < until) {
      const response = await get();
      await response.arrayBuffer();
      counted.set(response.status, (counted.get(response.status) ?? 0) + 1);
    }
  };
  await Promise.all(Array.from({ length: callers }, call));
  return counted;
}

describe("a provider whose tokens live one second, and whose API rejects expired ones", () => {
  it("is called by ten callers for four seconds: each call succeeds, with one refresh a second", async () => {
    // The test lets time pass, and only between calls: no token expires in transit, however slow the machine is.
    const clock = { ms: Date.now() };
    const now = () => clock.ms;
    const all = await startRenewing({ now, sandbox: { now, behaviour: { accessTokenLifetimeS: 1 } } });
    await all.connectAda();
    const statuses = new Set<number>();
    for (let round = 0; round < 40; round += 1) {
      await Promise.all(
        Array.from({ length: 10 }, async () => {
          const response = await all.get();
          await response.arrayBuffer();
          statuses.add(response.status);
        }),
      );
      clock.ms += 100;
    }
    expect([...statuses]).toEqual([200]);
    expect(await all.sidecar.metric("latchkey_proxy_refusals_total")).toBe(0);
    // A second holds ten rounds, and a background refresh may come one or two of them early.
    expect(all.renewals()).toBeGreaterThanOrEqual(4);
    expect(all.renewals()).toBeLessThanOrEqual(5);
    expect(all.sandbox.seen().tallies.supersededReused).toBe(0);
  });

  it("is called now and then: no call finds a token that is over", async () => {
    const all = await startRenewing({ sandbox: { behaviour: { accessTokenLifetimeS: 1 } } });
    await all.connectAda();
    for (let i = 0; i < 3; i += 1) {
      expect((await all.get()).status).toBe(200);
      await new Promise((resolve) => setTimeout(resolve, 1_100));
    }
    expect(all.renewals()).toBe(3);
    expect(await all.sidecar.metric("latchkey_proxy_refusals_total")).toBe(0);
  });
});

describe("a token that has run out when it arrives", () => {
  const lives = [0, -1, 0.4, "0.9", "-3600"];

  it.each(lives)(
    "with an expires_in of %j is used by its waiting callers, and by no later call",
    async (expires_in) => {
      const all = await startRenewing({ sandbox: { behaviour: { tokenAnswer: { fields: { expires_in } } } } });
      await all.connectAda();
      const since = performance.now();
      for (let i = 0; i < 3; i += 1) expect((await all.get()).status).toBe(200);
      expect(new Set(tokensUsed(all)).size).toBe(3);
      expect(all.renewals()).toBe(3);
      // The first is not waited for.
      expect(performance.now() - since).toBeGreaterThanOrEqual(1_900);
    },
  );

  it("is refreshed once for a thousand concurrent callers, and once a second for later ones", async () => {
    const all = await startRenewing({ sandbox: { behaviour: { tokenAnswer: { fields: { expires_in: 0 } } } } });
    await all.connectAda();
    const headers = { authorization: `Bearer ${secretKey}`, "provider-config-key": provider, "connection-id": "ada" };
    const { live } = all.sidecar.sidecar.broker;
    const ref = {
      $typeName: "latchkey.v1.ConnectionRef",
      environment: "dev",
      integration: provider,
      id: "ada",
    } as const;
    const begun = performance.now();
    const inside = Array.from({ length: 1_000 }, () => live.get(ref));
    const outside = Array.from({ length: 100 }, () => fetch(`${all.sidecar.data}/proxy/drive/v3/files`, { headers }));
    await Promise.all(inside);
    expect(new Set((await Promise.all(outside)).map(({ status }) => status))).toEqual(new Set([200]));
    // One, and another for each second that the machine needs for these calls.
    expect(all.renewals()).toBeLessThanOrEqual(Math.ceil((performance.now() - begun) / 1_000) + 1);
    const before = all.renewals();
    const since = performance.now();
    const counted = await callFor(3_000, { callers: 50, get: all.get });
    expect([...counted.keys()]).toEqual([200]);
    const seconds = (performance.now() - since) / 1_000;
    expect(all.renewals() - before).toBeGreaterThanOrEqual(2);
    expect(all.renewals() - before).toBeLessThanOrEqual(Math.ceil(seconds) + 1);
  });

  it("is refused by the API as well: the provider's own answer comes, and each token was used once", async () => {
    const all = await startRenewing({ sandbox: { behaviour: { accessTokenLifetimeS: 0 } } });
    await all.connectAda();
    const since = performance.now();
    for (let i = 0; i < 2; i += 1) {
      const response = await all.get();
      expect([response.status, response.headers.get("latchkey-error")]).toEqual([401, null]);
    }
    const used = tokensUsed(all);
    expect(new Set(used).size).toBe(used.length);
    expect(all.renewals()).toBeLessThanOrEqual(Math.ceil((performance.now() - since) / 1_000) + 1);
  });
});

describe("a refresh that a caller requests", () => {
  it("runs each time, also right after another: once a second, and once for concurrent callers", async () => {
    const all = await startRenewing();
    const { access_token } = await all.connectAda({ expiresInS: 3_600 });
    const tokens = [access_token];
    for (let i = 0; i < 3; i += 1) tokens.push((await all.show("&force_refresh=true")).credentials.access_token);
    expect(new Set(tokens).size).toBe(4);
    expect(all.renewals()).toBe(3);
    const together = await Promise.all(Array.from({ length: 50 }, () => all.show("&force_refresh=true")));
    const given = new Set(together.map(({ credentials }) => credentials.access_token));
    expect(given.has(tokens.at(-1))).toBe(false);
    expect(all.renewals()).toBeLessThanOrEqual(5);
    expect(all.sandbox.seen().tallies.supersededReused).toBe(0);
  });

  it("is one also where a token was refused a moment ago", async () => {
    const all = await startRenewing({
      sandbox: { behaviour: { answers: { files: [{ kind: "error", status: 401, error: "invalid_token" }] } } },
    });
    await all.connectAda({ expiresInS: 3_600 });
    for (const _ of [1, 2]) expect((await all.get()).status).toBe(401);
    expect(all.renewals()).toBe(1);
    const before = (await all.show()).credentials.access_token;
    expect((await all.show("&force_refresh=true")).credentials.access_token).not.toBe(before);
    expect(all.renewals()).toBe(2);
  });

  it("fails if the refresh fails: no old token comes with a 200", async () => {
    const all = await startRenewing({
      sandbox: { behaviour: { answers: { token: [{ kind: "error", status: 503, error: "server_error" }] } } },
    });
    await all.connectAda({ expiresInS: 3_600 });
    for (const _ of [1, 2]) {
      const path = `/connections/ada?provider_config_key=${provider}&force_refresh=true`;
      const { status, body } = await all.sidecar.rest("GET", path);
      expect([status, body.error.code]).toEqual([503, "refresh_unavailable"]);
    }
    expect((await all.get()).status).toBe(200);
  });
});
