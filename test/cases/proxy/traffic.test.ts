import { request as httpRequest } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, it, onTestFinished, vi } from "vitest";
import { WebSocket } from "ws";
import { Scope } from "../../../src/gen/latchkey/v1/access_pb.ts";
import { EnvironmentService } from "../../../src/gen/latchkey/v1/environment_pb.ts";
import { LogService } from "../../../src/gen/latchkey/v1/log_pb.ts";
import { type RecentRequest, SeriesStep, TrafficService } from "../../../src/gen/latchkey/v1/traffic_pb.ts";
import {
  type Answering,
  apiKey,
  ok,
  type ProxiedSidecar,
  startProvider,
  startProxied,
} from "../../support/peers/provider.ts";
import { secretKey } from "../../support/sidecar/harness.ts";
import { openSession, streamed } from "../../support/wire/http2-call.ts";

/** The series and the last requests must be the same on each lane: this file runs on all of them. */

const answering: Answering = (request, socket, n) => {
  const [, path = ""] = request.line.split(" ");
  if (path.startsWith("/fails")) socket.write("HTTP/1.1 503 No\r\nContent-Length: 2\r\n\r\nno");
  else if (path.startsWith("/refuses")) socket.write("HTTP/1.1 401 No\r\nContent-Length: 2\r\n\r\nno");
  else if (path.startsWith("/hangs")) return;
  else if (path.startsWith("/closes")) socket.destroy();
  else ok(request, socket, n);
};

const facts = ({ method, path, hasQuery, status, errorCode, attempts, keyId, connection }: RecentRequest) => ({
  line: `${method} ${path}${hasQuery ? "?" : ""}`,
  status,
  errorCode,
  attempts,
  keyId,
  id: connection?.id,
});

/** Each call has a connection of its own: one that was handed over stays on the general lane. */
function send(
  { data, proxyHeaders }: Pick<ProxiedSidecar, "data" | "proxyHeaders">,
  path: string,
  { headers = {}, body }: { readonly headers?: Readonly<Record<string, string>>; readonly body?: string } = {},
): Promise<number> {
  return new Promise((resolve, reject) => {
    const length = body === undefined ? {} : { "content-length": String(body.length) };
    const options = {
      method: body === undefined ? "GET" : "POST",
      headers: { ...proxyHeaders, ...length, ...headers },
    };
    const request = httpRequest(`${data}/proxy${path}`, { ...options, agent: false }, (response) => {
      response.resume().on("end", () => resolve(response.statusCode ?? 0));
    });
    request.on("error", reject);
    request.end(body);
  });
}

async function start(env: Readonly<Record<string, string>> = {}) {
  const provider = await startProvider(answering);
  const running = await startProxied(provider.port, { env });
  return { provider, running, traffic: running.client(TrafficService) };
}

it("counts and keeps every request, whoever answered, without secrets", async () => {
  const { running, traffic } = await start();
  await send(running, "/a?token=hidden");
  await send(running, `/b/${apiKey}/${secretKey}`, { body: '{"text":"hello"}' });
  await send(running, "/fails");
  await send(running, "/refuses");
  await send(running, "/closes", { headers: { retries: "1" } });
  await send(running, "/c", { headers: { "connection-id": "nobody" } });
  await send(running, "/d", { headers: { authorization: "Bearer lk_unknown" } });
  const session = await openSession(running.data);
  await streamed(session, "/proxy/e", { headers: running.proxyHeaders });
  await sleep(20);

  const { requests, kept, replica } = await traffic.listRequests({ environment: "dev" });
  expect([kept, replica !== ""]).toEqual([1_000, true]);
  const usual = { errorCode: "", attempts: 1, keyId: expect.any(String), id: "ada" };
  expect(requests.map(facts)).toEqual([
    { ...usual, line: "GET /e", status: 200 },
    { ...usual, line: "GET /c", status: 404, errorCode: "unknown_connection", attempts: 0, id: "nobody" },
    { ...usual, line: "GET /closes", status: 502, errorCode: "provider_closed", attempts: expect.any(Number) },
    { ...usual, line: "GET /refuses", status: 401 },
    { ...usual, line: "GET /fails", status: 503 },
    { ...usual, line: "POST /b/***/***", status: 200 },
    { ...usual, line: "GET /a?", status: 200 },
  ]);
  expect(requests[2]?.attempts).toBeGreaterThan(1);
  const posted = requests[5];
  expect([posted?.bytesUp, Number(posted?.bytesDown) > 20]).toEqual([16n, true]);
  for (const { at, totalMs, addedMs, status } of requests) {
    expect(Math.abs(Date.now() - Number(at?.seconds) * 1_000)).toBeLessThan(60_000);
    expect(totalMs).toBeGreaterThanOrEqual(addedMs);
    if (status !== 404) expect(addedMs).toBeGreaterThan(0);
  }
  const text = JSON.stringify(requests, (_, value) => (typeof value === "bigint" ? String(value) : value));
  for (const secret of [apiKey, secretKey, "hidden"]) expect(text).not.toContain(secret);

  const { total, series } = await traffic.getSeries({ environment: "dev", step: SeriesStep.HOUR });
  const last = <T>(values: readonly T[] | undefined) => values?.at(-1);
  expect(series.map(({ integration }) => integration)).toEqual(["here"]);
  for (const line of [total, series[0]]) {
    expect([last(line?.requests), last(line?.providerErrors), last(line?.ownErrors)]).toEqual([7, 1, 2]);
    expect(last(line?.wholeP99Ms)).toBeGreaterThanOrEqual(last(line?.wholeP50Ms) ?? Number.NaN);
    expect(last(line?.addedP50Ms)).toBeGreaterThan(0);
    expect(line?.requests).toHaveLength(25);
  }
  const labels = 'environment="dev",integration="here"';
  for (const [answer, count] of [
    ["2xx", 3],
    ["4xx", 1],
    ["5xx", 1],
    ["latchkey", 2],
  ])
    expect(await running.metric(`latchkey_integration_requests_total{${labels},answer="${answer}"}`)).toBe(count);
});

it("notes WebSockets, callers that leave, and names that do not exist", async () => {
  const { provider, running, traffic } = await start();
  const { proxyHeaders: headers } = running;
  const socket = new WebSocket(`${running.data.replace("http:", "ws:")}/proxy/ws`, { headers });
  await new Promise((resolve) => socket.once("error", resolve));
  const left = httpRequest(`${running.data}/proxy/hangs`, { headers, agent: false });
  left.on("error", () => {}).end();
  await vi.waitFor(() => expect(provider.received()).toContain("/hangs"));
  left.destroy();
  await sleep(50);
  await send(running, "/x", { headers: { "provider-config-key": "nothing" } });
  await sleep(20);
  const { requests } = await traffic.listRequests({ environment: "dev" });
  expect(requests.map(({ path, status, errorCode, tunnel }) => [path, status, errorCode, tunnel])).toEqual([
    ["/x", 404, "unknown_provider_config", false],
    ["/hangs", 0, "", false],
    ["/ws", 200, "", true],
  ]);
  const { series } = await traffic.getSeries({ environment: "dev" });
  expect(series.map(({ integration, other }) => [integration, other])).toEqual([
    ["here", false],
    ["", true],
  ]);
});

it("filters, turns pages, and shows no request of another environment", async () => {
  const { running, traffic } = await start();
  for (const path of ["/a", "/b", "/fails", "/c"]) await send(running, path);
  await send(running, "/d", { headers: { "connection-id": "nobody" } });
  await sleep(20);
  const paths = async (filter: Parameters<typeof traffic.listRequests>[0]["filter"]) =>
    (await traffic.listRequests({ environment: "dev", filter })).requests.map(({ path }) => path);
  expect(await paths({ status: "5" })).toEqual(["/fails"]);
  expect(await paths({ byLatchkey: true })).toEqual(["/d"]);
  expect(await paths({ path: "a", method: "get" })).toEqual(["/fails", "/a"]);
  expect(await paths({ integration: "here", connectionId: "ada" })).toEqual(["/c", "/fails", "/b", "/a"]);
  expect(await paths({ minMs: 60_000 })).toEqual([]);
  await expect(paths({ connectionId: "ada" })).rejects.toThrow("filter is not valid");
  const first = await traffic.listRequests({ environment: "dev", pageSize: 3 });
  const second = await traffic.listRequests({ environment: "dev", pageSize: 3, pageToken: first.nextPageToken });
  expect([...first.requests, ...second.requests].map(({ number }) => Number(number))).toEqual([5, 4, 3, 2, 1]);
  expect(second.nextPageToken).toBe("");

  const environments = running.client(EnvironmentService);
  await environments.createEnvironment({ name: "other" });
  const { secret } = await environments.createKey({ environment: "other", scopes: [Scope.CONNECTIONS_READ] });
  const others = running.client(TrafficService, secret);
  expect((await others.listRequests({})).requests).toEqual([]);
  expect((await others.getSeries({})).series).toEqual([]);
  await expect(others.listRequests({ environment: "dev" })).rejects.toThrow();
  await expect(others.sendRequest({ connection: { integration: "here", id: "ada" }, path: "/" })).rejects.toThrow(
    "proxy",
  );
});

it("sends each request to its watchers once it is over, and keeps none when told so", async () => {
  const { running, traffic } = await start();
  await send(running, "/before");
  await sleep(20);
  const over = new AbortController();
  onTestFinished(() => over.abort());
  const seen: string[] = [];
  const watch = traffic.watchRequests({ environment: "dev", recent: 5 }, { signal: over.signal });
  const iterator = watch[Symbol.asyncIterator]();
  const next = async () => {
    const { value } = await iterator.next();
    seen.push(...(value?.requests ?? []).map(({ path }: RecentRequest) => path));
  };
  await next();
  expect(seen).toEqual(["/before"]);
  await send(running, "/first");
  await send(running, "/fails");
  while (seen.length < 3) await next();
  expect(seen).toEqual(["/before", "/first", "/fails"]);

  const slow = traffic.watchRequests({ environment: "dev", maxPerSecond: 4 }, { signal: over.signal });
  const slowly = slow[Symbol.asyncIterator]();
  await slowly.next();
  await Promise.all(Array.from({ length: 6 }, (_, i) => send(running, `/crowd/${i}`)));
  let shown = 0;
  let missed = 0;
  while (shown + missed < 6) {
    const { value } = await slowly.next();
    expect(value?.requests.length).toBeLessThanOrEqual(1);
    shown += value?.requests.length ?? 0;
    missed += Number(value?.missed ?? 0);
  }
  expect(missed).toBeGreaterThan(0);

  const { running: quiet, traffic: none } = await start({ LATCHKEY_RECENT_REQUESTS: "off" });
  await send(quiet, "/x");
  await sleep(20);
  expect(await none.listRequests({ environment: "dev" })).toMatchObject({ requests: [], kept: 0 });
  expect((await none.getSeries({ environment: "dev" })).series).toHaveLength(1);
});

it("sends a single request for a control key as the proxy does", async () => {
  const { provider, running, traffic } = await start();
  const connection = { environment: "dev", integration: "here", id: "ada" };
  const answer = await traffic.sendRequest({
    connection,
    method: "POST",
    path: "/made?a=b",
    headers: [{ name: "X-Own", value: Buffer.from("1") }],
    body: Buffer.from("hello"),
  });
  expect(answer).toMatchObject({ status: 200, truncated: false, attempts: 1 });
  expect(answer.problem).toBeUndefined();
  expect(answer.totalMs).toBeGreaterThan(answer.addedMs);
  expect(JSON.parse(Buffer.from(answer.body).toString())).toEqual({ line: "POST /made?a=b HTTP/1.1", body: "hello" });
  expect(answer.headers.map(({ name }) => name)).toContain("content-type");
  const [request] = provider.connections.flatMap((one) => one.requests());
  expect(request?.fields).toEqual(
    expect.arrayContaining([
      ["x-own", "1"],
      ["x-api-key", apiKey],
    ]),
  );

  expect(await traffic.sendRequest({ connection, path: "/fails" })).toMatchObject({ status: 503 });
  const repeated = await traffic.sendRequest({
    connection,
    path: "/fails",
    headers: [{ name: "Retries", value: Buffer.from("1") }],
  });
  expect(repeated).toMatchObject({ status: 503, attempts: 2 });
  const elsewhere = { name: "Base-Url-Override", value: Buffer.from("https://evil.example") };
  const refused = await traffic.sendRequest({ connection, path: "/", headers: [elsewhere] });
  expect(refused).toMatchObject({ status: 403, attempts: 0, problem: { code: "host_not_allowed" }, headers: [] });
  expect((await traffic.sendRequest({ connection, path: "/../x" })).problem?.code).toBe("invalid_path");
  expect((await traffic.sendRequest({ connection, path: "/closes" })).problem?.code).toBe("provider_closed");
  for (const wrong of [
    { connection: { ...connection, id: "nobody" }, path: "/" },
    { connection, path: "/a b" },
    { connection, path: "https://evil.example/" },
    { connection, path: "/", headers: [{ name: "Transfer-Encoding", value: Buffer.from("chunked") }] },
    { connection, path: "/", headers: [{ name: "X-A", value: Buffer.from("1\r\nX-B: 2") }] },
    { connection, path: "/", method: "TRACE" },
  ]) {
    const outcome = await traffic.sendRequest(wrong).then(
      ({ problem }) => problem?.code,
      () => "refused",
    );
    expect([wrong, outcome]).not.toEqual([wrong, undefined]);
  }
  const { requests } = await traffic.listRequests({ environment: "dev", filter: { path: "/made" } });
  expect(requests.map(facts)).toMatchObject([{ line: "POST /made?", status: 200, id: "ada" }]);
  const { events } = await running.client(LogService).listAuditEvents({ action: "request.send" });
  expect(events[0]).toMatchObject({ environment: "dev", targets: ["here/ada"] });
});
