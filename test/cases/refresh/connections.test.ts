import { describe, expect, it } from "vitest";
import { allowPrivateFor } from "../../../src/dev/sandbox/providers.ts";
import { startProvider } from "../../support/peers/provider.ts";
import { secretKey, startTestSidecar } from "../../support/sidecar/harness.ts";

type Fate = "answered" | "answered late" | "unread" | "answer lost";

interface Strict {
  /** The outcome of a token request: by its number on its connection, and among all. */
  readonly fateOf?: (inConnection: number, inAll: number) => Fate;
}

/** An idle connection is used again for a second. */
const keptMs = 950;

/** A provider that accepts each refresh token once, and ten expired connections of it. */
async function startStrict({ fateOf = () => "answered" }: Strict = {}) {
  const good = new Set(Array.from({ length: 10 }, (_, i) => `first-${i}`));
  let [given, asked, taken, refused] = [0, 0, 0, 0];
  const askedAt: number[] = [];
  const provider = await startProvider((request, socket, inConnection) => {
    const say = (status: string, value: unknown) => {
      const body = JSON.stringify(value);
      const head = `HTTP/1.1 ${status}\r\nContent-Type: application/json\r\nContent-Length: ${body.length}`;
      socket.write(`${head}\r\n\r\n${body}`);
    };
    if (!request.line.startsWith("POST /token")) {
      say("200 OK", { used: request.fields.find(([name]) => name === "authorization")?.[1] });
      return;
    }
    asked += 1;
    askedAt.push(performance.now());
    const fate = fateOf(inConnection, asked);
    if (fate === "unread") {
      socket.destroy();
      return;
    }
    const token = new URLSearchParams(request.body).get("refresh_token") ?? "";
    if (!good.delete(token)) {
      refused += 1;
      say("400 Bad Request", { error: "invalid_grant" });
      return;
    }
    taken += 1;
    given += 1;
    good.add(`next-${given}`);
    const tokens = { access_token: `at-${given}`, refresh_token: `next-${given}`, expires_in: 3_600 };
    if (fate === "answer lost") socket.destroy();
    else setTimeout(() => say("200 OK", tokens), fate === "answered late" ? 300 : 0);
  });
  const origin = `https://127.0.0.1:${provider.port}`;
  const described = {
    name: "strict",
    oauth2: { authorization_url: `${origin}/auth`, token_url: `${origin}/token` },
    proxy: { base_url: origin },
  };
  const { rest, data, metric } = await startTestSidecar({
    env: { LATCHKEY_ALLOW_PRIVATE: allowPrivateFor(`http://127.0.0.1:${provider.port}`), LATCHKEY_CONFIG: "/l.yaml" },
    files: { "/l.yaml": JSON.stringify({ providers: [described] }) },
  });
  const app = { type: "OAUTH2", client_id: "app", client_secret: "secret" };
  await rest("POST", "/integrations", { body: { unique_key: "strict", provider: "strict", credentials: app } });
  const expires_at = new Date(Date.now() - 60_000).toISOString();
  for (const [i, refresh_token] of [...good].entries()) {
    const credentials = { type: "OAUTH2", access_token: `old-${i}`, refresh_token, expires_at };
    const body = { provider_config_key: "strict", connection_id: `c${i}`, credentials };
    expect((await rest("POST", "/connections", { body })).status).toBe(201);
  }
  async function call(i: number) {
    const headers = { authorization: `Bearer ${secretKey}`, "provider-config-key": "strict", "connection-id": `c${i}` };
    const response = await fetch(`${data}/proxy/files`, { headers });
    return { status: response.status, used: ((await response.json()) as { used?: string }).used };
  }
  /** For each connection to the provider: the number of token requests, and of other requests. */
  const shares = () =>
    provider.connections.map((one) => {
      const lines = one.requests().map(({ line }) => line.startsWith("POST /token"));
      return [lines.filter(Boolean).length, lines.filter((is) => !is).length] as const;
    });
  const seen = () => ({ asked, taken, refused });
  /** How often so much time passed between two token requests that the connection need not be there any more. */
  const pauses = () => askedAt.filter((at, i) => at - (askedAt[i - 1] ?? at) >= keptMs).length;
  return { call, shares, seen, pauses, metric };
}

describe("requests for tokens", () => {
  it("go one after another over one connection, which carries nothing else", async () => {
    const { call, shares, seen, pauses } = await startStrict();
    for (let i = 0; i < 10; i += 1) expect((await call(i)).status).toBe(200);
    expect(seen()).toEqual({ asked: 10, taken: 10, refused: 0 });
    const used = shares().filter(([tokens]) => tokens > 0);
    expect(used.reduce((sum, [tokens]) => sum + tokens, 0)).toBe(10);
    expect(used.every(([, others]) => others === 0)).toBe(true);
    // On a busy machine a call may take longer than the connection is kept for.
    expect(used.length).toBeLessThanOrEqual(1 + pauses());
  });

  it("that a kept connection ended under unread are sent once more, over a new one, and no token is lost", async () => {
    // Each connection serves two requests; of the third the client only knows that no response came.
    const { call, shares, seen, metric } = await startStrict({ fateOf: (nth) => (nth === 2 ? "unread" : "answered") });
    for (let i = 0; i < 10; i += 1) {
      const { status, used } = await call(i);
      expect([status, used]).toEqual([200, `Bearer at-${i + 1}`]);
    }
    const { asked, taken, refused } = seen();
    expect([taken, refused]).toEqual([10, 0]);
    expect(asked).toBeGreaterThan(10);
    // A repeated request was never the second or third on its connection.
    expect(shares().filter(([tokens]) => tokens > 3)).toEqual([]);
    expect(await metric('latchkey_refreshes_total{outcome="renewed"}')).toBe(10);
  });

  it("are sent once more over no other that was kept: it may be gone as well", async () => {
    const { call, seen } = await startStrict({ fateOf: (nth) => (nth === 0 ? "answered late" : "unread") });
    const both = await Promise.all([call(0), call(1)]);
    expect(both.map(({ status }) => status)).toEqual([200, 200]);
    expect((await call(2)).status).toBe(200);
    expect(seen()).toEqual({ asked: 4, taken: 3, refused: 0 });
  });

  it("whose answer was lost on a kept connection are sent once more, and not a third time", async () => {
    const { call, seen } = await startStrict({ fateOf: (_, nth) => (nth === 2 ? "answer lost" : "answered") });
    expect((await call(0)).status).toBe(200);
    // The token was used up, and the provider allows no second use.
    expect((await call(1)).status).toBe(424);
    expect(seen()).toEqual({ asked: 3, taken: 2, refused: 1 });
    expect((await call(1)).status).toBe(424);
    expect(seen().asked).toBe(3);
  });

  it("that come at once make as many connections as are under way, and no more", async () => {
    const { call, shares, seen } = await startStrict();
    const statuses = await Promise.all(Array.from({ length: 10 }, async (_, i) => (await call(i)).status));
    expect(statuses).toEqual(Array(10).fill(200));
    expect(seen()).toEqual({ asked: 10, taken: 10, refused: 0 });
    for (const [tokens, others] of shares()) expect(tokens === 0 || others === 0).toBe(true);
  });
});
