import http from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, it } from "vitest";
import { retryDelayMs } from "../../../src/data-plane/proxy/retries.ts";
import {
  type Answering,
  ok,
  type RecordingProvider,
  startProvider,
  startProxied,
} from "../../support/peers/provider.ts";
import { seeded } from "../../support/runner/seeded.ts";
import { startStopwatch } from "../../support/runner/stopwatch.ts";
import { openWire } from "../../support/sidecar/door.ts";
import { type Calling, call, faultOf, fieldOf } from "../../support/wire/proxy-call.ts";

type Options = NonNullable<Parameters<typeof startProxied>[1]>;

const mib = 1024 * 1024;
const said = (status: number, more = "") => `HTTP/1.1 ${status} Said\r\n${more}Content-Length: 4\r\n\r\nsaid`;

/** Sends these responses one after another, and 200 afterwards. A function makes one that depends on the time. */
function saying(...answers: readonly (string | "close" | "silent" | (() => string))[]): Answering {
  const left = [...answers];
  return (request, socket, count) => {
    const next = left.shift();
    if (next === undefined) ok(request, socket, count);
    else if (next === "close") socket.destroy();
    else if (typeof next === "function") socket.write(next(), "latin1");
    else if (next !== "silent") socket.write(next, "latin1");
  };
}

async function against(answer: Answering, options: Options = {}) {
  const provider = await startProvider(answer);
  const running = await startProxied(provider.port, options);
  const ask = (calling: Calling = {}) =>
    call(`${running.data}/proxy/x`, { ...calling, headers: { ...running.proxyHeaders, ...calling.headers } });
  return { provider, running, ask };
}

const countOf = ({ connections }: RecordingProvider) => connections.flatMap((one) => one.requests()).length;

it("uses a connection again, and a new one when the provider has ended it, without the caller noticing", async () => {
  const { provider, ask } = await against(ok);
  for (let i = 0; i < 3; i += 1) expect((await ask()).status).toBe(200);
  expect(provider.connections).toHaveLength(1);
  provider.connections[0]?.socket.end();
  await sleep(30);
  expect((await ask()).status).toBe(200);
  expect(provider.connections).toHaveLength(2);
});

it("repeats a safe request once when a kept connection turns out to be closed", async () => {
  // The first is answered; the second finds the connection closing under it.
  const { provider, ask } = await against(saying(said(200), "close"));
  await ask();
  expect((await ask()).status).toBe(200);
  expect(countOf(provider)).toBe(3);
  const always = await against(saying(said(200), "close", "close", "close", "close"));
  await always.ask();
  const answer = await always.ask();
  expect([answer.status, faultOf(answer)]).toEqual([502, "provider_closed"]);
  expect(countOf(always.provider)).toBe(3);
  const fresh = await against(saying("close", "close"));
  expect((await fresh.ask()).status).toBe(502);
  expect(countOf(fresh.provider)).toBe(1);
});

it("P23: never sends a request twice that could do something twice", async () => {
  for (const [method, body] of [
    ["POST", ""],
    ["POST", "the body"],
    ["PUT", "the body"],
    ["PATCH", "the body"],
    ["DELETE", ""],
    ["GET", "the body"],
  ] as const) {
    const { provider, running, ask } = await against(saying(said(200), "close"));
    await ask();
    const answer = await ask({ method, ...(body === "" ? {} : { body, headers: { "content-length": "8" } }) });
    expect([answer.status, faultOf(answer)], `${method} ${body}`).toEqual([502, "provider_closed"]);
    expect(countOf(provider), `${method} ${body}`).toBe(2);
    await running.stop();
  }
});

it("P23: passes a 401 on unchanged, and sends the body once", async () => {
  const unauthorized = said(401, 'WWW-Authenticate: Bearer error="invalid_token"\r\n');
  const { provider, ask } = await against(saying(unauthorized, unauthorized));
  for (const calling of [{}, { method: "POST", body: "the body" }]) {
    const answer = await ask(calling);
    expect([answer.status, answer.body, faultOf(answer)]).toEqual([401, "said", undefined]);
    expect(fieldOf(answer, "www-authenticate")).toContain("invalid_token");
  }
  expect(countOf(provider)).toBe(2);
});

it("keeps a connection no longer than the provider allows", async () => {
  const { provider, ask } = await against((_, socket) => void socket.write(said(200, "Keep-Alive: timeout=2\r\n")));
  await ask();
  await ask();
  expect(provider.connections).toHaveLength(1);
  await sleep(1_500);
  // Closed by us, before the provider would.
  expect(provider.connections[0]?.socket.readyState).toBe("closed");
  await ask();
  expect(provider.connections).toHaveLength(2);
  const hasty = await against((_, socket) => void socket.write(said(200, "Keep-Alive: timeout=1\r\n")));
  await hasty.ask();
  await hasty.ask();
  expect(hasty.provider.connections).toHaveLength(2);
});

it("retries as often as requested, and then passes the last response on", async () => {
  const { provider, running, ask } = await against(saying(said(503), said(429), said(500)));
  const headers = { retries: "2" };
  expect(await ask({ headers })).toMatchObject({ status: 500, body: "said" });
  expect(countOf(provider)).toBe(3);
  expect(await running.metric("latchkey_proxy_retries_total")).toBe(2);
  const { provider: other, ask: askOther } = await against(saying(said(503)));
  expect((await askOther()).status).toBe(503);
  expect((await askOther({ headers: { retries: "0" } })).status).toBe(200);
  expect(countOf(other)).toBe(2);
  expect(provider.received()).not.toMatch(/^retries:/im);
});

it("retries the statuses of Retry-On, and otherwise only those worth it", async () => {
  const { provider, ask } = await against(saying(said(409), said(423), said(404)));
  const answer = await ask({ headers: { retries: "5", "retry-on": "409, 423" } });
  expect([answer.status, countOf(provider)]).toEqual([404, 3]);
  for (const headers of [{ retries: "11" }, { retries: "x" }, { retries: "1", "retry-on": "200,x" }]) {
    expect((await ask({ headers })).status, JSON.stringify(headers)).toBe(400);
  }
});

it("waits as long as the provider demands, in seconds or as a date, up to a limit", async () => {
  const inTwoSeconds = () => new Date(Date.now() + 2_000).toUTCString();
  const start = async (more: string | (() => string)) => {
    const { ask, provider } = await against(
      saying(typeof more === "string" ? said(429, more) : () => said(429, more())),
    );
    const elapsed = startStopwatch();
    const answer = await ask({ headers: { retries: "1" } });
    return { status: answer.status, ms: elapsed.passedMs, ownMs: elapsed.ms, count: countOf(provider) };
  };
  const [seconds, date, far, nonsense] = await Promise.all([
    start("Retry-After: 1\r\n"),
    start(() => `Retry-After: ${inTwoSeconds()}\r\n`),
    start("Retry-After: 3600\r\n"),
    start("Retry-After: -1\r\n"),
  ]);
  expect(seconds).toMatchObject({ status: 200, count: 2 });
  expect(seconds.ms).toBeGreaterThan(950);
  // A date is of whole seconds, and some of the two have gone by.
  expect(date).toMatchObject({ status: 200, count: 2 });
  expect(date.ms).toBeGreaterThan(300);
  // A longer wait is left to the caller.
  expect(far).toMatchObject({ status: 429, count: 1 });
  expect(far.ownMs).toBeLessThan(900);
  expect(nonsense).toMatchObject({ status: 200, count: 2 });
  expect(nonsense.ms).toBeGreaterThan(100);
});

it("waits as the provider's description defines", async () => {
  const provider = await startProvider(saying(() => said(418, `X-Reset: ${Date.now() + 700}\r\n`)));
  const running = await startProxied(provider.port, {
    provider: {
      proxy: {
        baseUrl: `https://127.0.0.1:${provider.port}`,
        retry: { afterHeader: "x-reset", afterUnit: "unix_ms", statuses: [418] },
      },
    },
  });
  const since = performance.now();
  const answer = await call(`${running.data}/proxy/x`, { headers: { ...running.proxyHeaders, retries: "1" } });
  expect([answer.status, countOf(provider)]).toEqual([200, 2]);
  expect(performance.now() - since).toBeGreaterThan(400);
});

it("treats a status as a rate limit only if the provider names an exhausted limit or a reset", async () => {
  const inAnHour = `x-reset: ${Math.floor(Date.now() / 1_000) + 3_600}\r\n`;
  const tries = async (first: string) => {
    const provider = await startProvider(saying(first));
    const retry = { afterHeader: "x-reset", afterUnit: "unix_seconds", statuses: [403], remainingHeader: "x-left" };
    const options = { provider: { proxy: { baseUrl: `https://127.0.0.1:${provider.port}`, retry } } };
    const running = await startProxied(provider.port, options);
    const { status } = await call(`${running.data}/proxy/x`, { headers: { ...running.proxyHeaders, retries: "1" } });
    await running.stop();
    return [status, countOf(provider)];
  };
  // A missing permission, in a response that also names the reset of a limit.
  expect(await tries(said(403, `x-left: 17\r\n${inAnHour}`))).toEqual([403, 1]);
  expect(await tries(said(403))).toEqual([403, 1]);
  expect(await tries(said(403, "X-Left: 0\r\n"))).toEqual([200, 2]);
  expect(await tries(said(403, "x-left: 17\r\nRetry-After: 0\r\n"))).toEqual([200, 2]);
  // Longer than the longest wait.
  expect(await tries(said(403, `x-left: 0\r\n${inAnHour}`))).toEqual([403, 1]);
  // Other failures do not wait for a limit that is not exhausted.
  expect(await tries(said(503, `x-left: 17\r\n${inAnHour}`))).toEqual([200, 2]);
});

it("tries again a provider that closed the connection, and none that began to answer", async () => {
  const { provider, ask } = await against(saying("close", "close"));
  expect((await ask({ headers: { retries: "3" } })).status).toBe(200);
  expect(countOf(provider)).toBe(3);
  const half: Answering = (_, socket) => {
    socket.write("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello");
    setTimeout(() => socket.destroy(), 30);
  };
  const cut = await against(half);
  expect(await cut.ask({ headers: { retries: "3" } })).toMatchObject({ status: 200, body: "hello", outcome: "cut" });
  expect(countOf(cut.provider)).toBe(1);
});

it("sends a body again that it could hold, and no other", async () => {
  const send = async (body: string, headers: Readonly<Record<string, string>>) => {
    const { provider, running, ask } = await against(saying(said(503)));
    const answer = await ask({ method: "POST", body, headers: { retries: "2", ...headers } });
    const bodies = provider.connections.flatMap((one) => one.requests()).map((one) => one.body === body);
    await running.stop();
    return [answer.status, ...bodies];
  };
  expect(await send("the body", {})).toEqual([200, true, true]);
  expect(await send("x".repeat(mib), {})).toEqual([200, true, true]);
  expect(await send("x".repeat(mib + 1), {})).toEqual([503, true]);
  expect(await send("in chunks", { "transfer-encoding": "chunked" })).toEqual([503, true]);
  // Without a body to hold, but its effect is unknown.
  expect(await send("", { "content-length": "0" })).toEqual([503, true]);
});

it("stops trying when the caller has left", async () => {
  const { provider, running } = await against((_, socket) => void socket.write(said(503, "Retry-After: 1\r\n")));
  const wire = await openWire(running.data);
  wire.send(`GET /proxy/x HTTP/1.1\r\nHost: localhost\r\nRetries: 5\r\n${running.proxyLines}\r\n`);
  while (countOf(provider) === 0) await sleep(5);
  wire.socket.destroy();
  await sleep(1_300);
  expect(countOf(provider)).toBe(1);
  expect(await running.metric("latchkey_proxy_open")).toBe(0);
});

it("starts no attempt that would be too late", () => {
  const call = {
    proxied: { method: "GET", body: "none" },
    options: { retryOn: [] },
    live: { provider: {} },
  };
  const head = {
    status: 503,
    reason: "",
    fields: ["Retry-After", "20"],
    framing: 0,
    keepsAlive: true,
    idleSeconds: undefined,
  };
  const after = (secondsAgo: number) =>
    retryDelayMs(
      { head },
      { call: { ...call, since: performance.now() - secondsAgo * 1_000 }, content: undefined, tried: 0, nowMs: 0 },
    );
  expect(after(0)).toBe(20_000);
  expect(after(35)).toBe(20_000);
  expect(after(45)).toBeUndefined();
});

it("keeps the answers of many callers at once apart, over few connections", async () => {
  const random = seeded(1);
  const provider = await startProvider((request, socket) => {
    const id = request.line.split(" ")[1] ?? "";
    const answer = `HTTP/1.1 200 OK\r\nContent-Length: ${id.length}\r\nX-Id: ${id}\r\n\r\n${id}`;
    setTimeout(() => socket.write(answer), random() * 20);
  });
  const { data, proxyHeaders: headers } = await startProxied(provider.port);
  const agent = new http.Agent({ keepAlive: true, maxSockets: 2_000 });
  const answers = await Promise.all(
    Array.from({ length: 1_500 }, (_, i) => call(`${data}/proxy/${i}`, { headers, agent })),
  );
  agent.destroy();
  for (const [i, answer] of answers.entries()) {
    expect([answer.status, answer.body, fieldOf(answer, "x-id")]).toEqual([200, `/${i}`, `/${i}`]);
  }
  expect(provider.connections.length).toBeLessThanOrEqual(1_024);
});
