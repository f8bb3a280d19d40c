import { once } from "node:events";
import { connect } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, it } from "vitest";
import { type CollectedSpan, startCollector, type TestCollector } from "../../support/peers/collector.ts";
import {
  type Answering,
  apiKey,
  ok,
  type RecordedRequest,
  startProvider,
  startProxied,
} from "../../support/peers/provider.ts";
import { startStopwatch } from "../../support/runner/stopwatch.ts";
import { openWire } from "../../support/sidecar/door.ts";
import { adminKey, secretKey, temporaryFolder } from "../../support/sidecar/harness.ts";
import { lacks } from "../../support/sidecar/needs.ts";
import { type Calling, call, faultOf } from "../../support/wire/proxy-call.ts";
import { formsOf } from "../../support/wire/secret-forms.ts";
import { createAuthority, pem } from "../control-plane/certificates.ts";

type Env = Readonly<Record<string, string>>;

const traceId = "0af7651916cd43dd8448eb211c80319c";
const callerSpan = "b7ad6b7169203331";
const sampled = `00-${traceId}-${callerSpan}-01`;
const said = (status: number) => `HTTP/1.1 ${status} Said\r\nContent-Length: 4\r\n\r\nsaid`;

async function against(answer: Answering = ok, { env = {}, collector }: { env?: Env; collector?: TestCollector } = {}) {
  const collecting = collector ?? (await startCollector());
  const provider = await startProvider(answer);
  const running = await startProxied(provider.port, { env: { ...collecting.env, ...env } });
  const ask = (calling: Calling = {}, path = "/proxy/x") =>
    call(`${running.data}${path}`, { ...calling, headers: { ...running.proxyHeaders, ...calling.headers } });
  const requests = () => provider.connections.flatMap((one) => one.requests());
  /** Waits for this number of spans of one trace, and expects no more. */
  async function spans(count: number): Promise<readonly CollectedSpan[]> {
    await expect.poll(collecting.spans).toHaveLength(count);
    return collecting.spans();
  }
  return { collecting, provider, running, ask, requests, spans };
}

const fieldsOf = ({ fields }: RecordedRequest, name: string) =>
  fields.flatMap(([one, value]) => (one === name ? [value] : []));
const ofKind = (spans: readonly CollectedSpan[], kind: CollectedSpan["kind"]) =>
  spans.filter((span) => span.kind === kind);

it("joins the caller's trace: one span for the caller, one for the provider, each the parent of the next", async () => {
  const { collecting, provider, running, ask, requests, spans } = await against();
  const answer = await ask({ headers: { traceparent: sampled, tracestate: "a=1,b=2" } });
  expect(answer.status).toBe(200);
  const all = await spans(2);
  const [server] = ofKind(all, "server");
  const [client] = ofKind(all, "client");
  expect(server).toMatchObject({ traceId, parentSpanId: callerSpan, name: "GET /proxy/*", isError: false });
  expect(client).toMatchObject({ traceId, parentSpanId: server?.spanId, name: "GET", isError: false });
  const [request] = requests();
  expect(fieldsOf(request as RecordedRequest, "traceparent")).toEqual([`00-${traceId}-${client?.spanId}-01`]);
  expect(fieldsOf(request as RecordedRequest, "tracestate")).toEqual(["a=1,b=2"]);
  expect(server?.attributes).toEqual({
    "http.request.method": "GET",
    "http.route": "/proxy/*",
    "http.response.status_code": 200,
    "url.scheme": "http",
    "network.protocol.version": "1.1",
    "latchkey.environment": "dev",
    "latchkey.integration": "here",
    "latchkey.connection": "ada",
    "latchkey.credentials": "apiKey",
    "latchkey.retries": 0,
  });
  expect(client?.attributes).toEqual({
    "http.request.method": "GET",
    "http.response.status_code": 200,
    "server.address": "127.0.0.1",
    "server.port": provider.port,
    "url.scheme": "http",
    "network.protocol.version": "1.1",
  });
  // One span lies within the other, and both are recent.
  const [outer, inner] = [server, client] as [CollectedSpan, CollectedSpan];
  expect(outer.startNs <= inner.startNs && inner.startNs < inner.endNs && inner.endNs <= outer.endNs).toBe(true);
  expect(Math.abs(Number(outer.endNs / 1_000_000n) - Date.now())).toBeLessThan(10_000);
  // SpanFlags: sampled, remoteness known, and remote or not.
  expect([outer.flags, inner.flags]).toEqual([0x301, 0x101]);
  const [post] = collecting.posts;
  expect(post).toMatchObject({ line: "POST /v1/traces", resource: { "service.name": "latchkey" } });
  expect(post?.headers["content-type"]).toBe("application/json");
  expect(await running.metric("latchkey_spans_dropped_total")).toBe(0);
});

it("leaves trace context as it came when no spans are wanted", async () => {
  for (const env of [
    { OTEL_EXPORTER_OTLP_ENDPOINT: "" },
    { OTEL_SDK_DISABLED: "true" },
    { OTEL_TRACES_EXPORTER: "none" },
  ]) {
    const { collecting, running, ask, requests } = await against(ok, { env });
    await ask({ headers: { traceparent: "anything at all", tracestate: "a=1" } });
    const [request] = requests();
    expect(fieldsOf(request as RecordedRequest, "traceparent")).toEqual(["anything at all"]);
    expect(fieldsOf(request as RecordedRequest, "tracestate")).toEqual(["a=1"]);
    await running.stop();
    expect(collecting.received()).toBe("");
  }
});

it("starts a trace if there is none, and drops a tracestate without one", async () => {
  for (const headers of [{}, { tracestate: "a=1" }]) {
    const { ask, requests, spans } = await against();
    await ask({ headers });
    const all = await spans(2);
    const [server] = ofKind(all, "server");
    expect(server?.parentSpanId).toBeUndefined();
    expect(server?.traceId).not.toMatch(/^0+$/);
    const [request] = requests();
    // Sampled, and marked random as in Level 2 of the standard.
    const own = ofKind(all, "client")[0]?.spanId;
    expect(fieldsOf(request as RecordedRequest, "traceparent")).toEqual([`00-${server?.traceId}-${own}-03`]);
    expect(fieldsOf(request as RecordedRequest, "tracestate")).toEqual([]);
  }
});

it.each([
  ["nothing", ""],
  ["words", "hello"],
  ["a version that may not be", `ff-${traceId}-${callerSpan}-01`],
  ["a trace of zeros", `00-${"0".repeat(32)}-${callerSpan}-01`],
  ["a parent of zeros", `00-${traceId}-${"0".repeat(16)}-01`],
  ["capitals", `00-${traceId.toUpperCase()}-${callerSpan}-01`],
  ["a trace that is short", `00-${traceId.slice(1)}-${callerSpan}-01`],
  ["flags that are none", `00-${traceId}-${callerSpan}-0g`],
  ["more than version 00 has", `00-${traceId}-${callerSpan}-01-x`],
  ["a later version that runs on", `01-${traceId}-${callerSpan}-01x`],
  ["blanks within", `00 -${traceId}-${callerSpan}-01`],
  ["two of them", [sampled, sampled]],
])("starts a new trace when the caller's is malformed: %s", async (_what, traceparent) => {
  const { ask, requests, spans } = await against();
  await ask({ headers: { traceparent, tracestate: "a=1" } });
  const [server] = ofKind(await spans(2), "server");
  expect(server?.parentSpanId).toBeUndefined();
  expect(server?.traceId).not.toBe(traceId);
  const [request] = requests();
  expect(fieldsOf(request as RecordedRequest, "traceparent")).toHaveLength(1);
  expect(fieldsOf(request as RecordedRequest, "tracestate")).toEqual([]);
});

it("accepts fields of a later version, and sends version 00", async () => {
  const { ask, requests, spans } = await against();
  await ask({ headers: { traceparent: `cc-${traceId}-${callerSpan}-ff-what-is-to-come` } });
  const [server] = ofKind(await spans(2), "server");
  expect(server).toMatchObject({ traceId, parentSpanId: callerSpan });
  expect(fieldsOf(requests()[0] as RecordedRequest, "traceparent")[0]).toMatch(
    new RegExp(`^00-${traceId}-[0-9a-f]{16}-03$`),
  );
});

it.each([
  ["take our trace context away", { connection: "keep-alive, traceparent" }],
  ["slip another in beside it", { "nango-proxy-traceparent": `00-${traceId}-${"1".repeat(16)}-00` }],
])("does not let the caller %s", async (_what, headers) => {
  const { ask, requests, spans } = await against();
  await ask({ headers: { traceparent: sampled, ...headers } });
  const [client] = ofKind(await spans(2), "client");
  expect(fieldsOf(requests()[0] as RecordedRequest, "traceparent")).toEqual([`00-${traceId}-${client?.spanId}-01`]);
});

it("creates no span for a trace that the caller does not sample, and forwards that", async () => {
  const { collecting, running, ask, requests } = await against();
  for (const flags of ["00", "02"])
    await ask({ headers: { traceparent: `00-${traceId}-${callerSpan}-${flags}`, tracestate: "a=1" } });
  const passed = requests().flatMap((request) => fieldsOf(request, "traceparent"));
  expect(passed.map((one) => one.slice(0, 36))).toEqual([`00-${traceId}-`, `00-${traceId}-`]);
  expect(passed.map((one) => one.slice(-2))).toEqual(["00", "02"]);
  expect(requests().flatMap((request) => fieldsOf(request, "tracestate"))).toEqual(["a=1", "a=1"]);
  await running.stop();
  expect(collecting.received()).toBe("");
});

it.each([
  ["always_on", "1", "00", true],
  ["always_off", "1", "01", false],
  ["parentbased_always_off", "1", undefined, false],
  ["parentbased_always_off", "1", "01", true],
  ["parentbased_traceidratio", "0", undefined, false],
  ["parentbased_traceidratio", "0", "01", true],
  ["traceidratio", "0", "01", false],
  ["traceidratio", "1", "00", true],
  // The random part of this trace id is at 0.28.
  ["traceidratio", "0.7", "00", false],
  ["traceidratio", "0.75", "00", true],
])("samples by %s %s, with a parent of %s: %s", async (OTEL_TRACES_SAMPLER, OTEL_TRACES_SAMPLER_ARG, flags, isKept) => {
  const { collecting, running, ask, requests } = await against(ok, {
    env: { OTEL_TRACES_SAMPLER, OTEL_TRACES_SAMPLER_ARG },
  });
  await ask({ headers: flags === undefined ? {} : { traceparent: `00-${traceId}-${callerSpan}-${flags}` } });
  await running.stop();
  expect(collecting.spans()).toHaveLength(isKept ? 2 : 0);
  const [passed = ""] = fieldsOf(requests()[0] as RecordedRequest, "traceparent");
  expect(Number.parseInt(passed.slice(-2), 16) & 1).toBe(isKept ? 1 : 0);
});

it("keeps about the configured share of traces", async () => {
  const { collecting, running, ask } = await against(ok, {
    env: { OTEL_TRACES_SAMPLER: "parentbased_traceidratio", OTEL_TRACES_SAMPLER_ARG: "0.25" },
  });
  for (let i = 0; i < 200; i += 1) await ask();
  await running.stop();
  const kept = ofKind(collecting.spans(), "server").length;
  // Five standard deviations around 50 of 200.
  expect(kept).toBeGreaterThan(19);
  expect(kept).toBeLessThan(81);
});

it("describes a response of latchkey's own", async () => {
  const { ask, running, spans } = await against();
  const answer = await ask({ headers: { traceparent: sampled, "connection-id": "nobody" } });
  expect(faultOf(answer)).toBe("unknown_connection");
  const [server] = await spans(1);
  expect(server).toMatchObject({ kind: "server", traceId, parentSpanId: callerSpan, isError: false });
  expect(server?.attributes).toMatchObject({ "error.type": "unknown_connection", "http.response.status_code": 404 });
  expect(server?.attributes).not.toHaveProperty(["latchkey.connection"]);
  await call(`${running.data}/proxy/x`, { headers: { authorization: "Bearer nobody-knows-this-key" } });
  expect((await spans(2))[1]?.attributes).toMatchObject({
    "error.type": "unknown_key",
    "http.response.status_code": 401,
  });
});

it("describes why a provider is unreachable or answers wrongly", async () => {
  const cases: readonly (readonly [Answering, string, number, string])[] = [
    [(_, socket) => void socket.destroy(), "provider_closed", 502, "provider_closed"],
    [(_, socket) => void socket.write("what is this\r\n\r\n"), "provider_malformed", 502, "provider_malformed"],
    [(_, socket) => void socket.write(said(503)), "503", 503, "503"],
  ];
  for (const [answer, clientType, status, serverType] of cases) {
    const { ask, spans } = await against(answer);
    await ask({ headers: { traceparent: sampled } });
    const all = await spans(2);
    expect(ofKind(all, "client")[0]).toMatchObject({ isError: true, attributes: { "error.type": clientType } });
    expect(ofKind(all, "server")[0]).toMatchObject({
      isError: true,
      attributes: { "error.type": serverType, "http.response.status_code": status },
    });
  }
  const { ask, spans } = await against((_, socket) => void socket.write(said(404)));
  await ask();
  const all = await spans(2);
  // An error status of the provider is an error of the client span, and not of the server span.
  expect(ofKind(all, "client")[0]).toMatchObject({ isError: true, attributes: { "error.type": "404" } });
  expect(ofKind(all, "server")[0]).toMatchObject({ isError: false, attributes: { "http.response.status_code": 404 } });
  expect(ofKind(all, "server")[0]?.attributes).not.toHaveProperty(["error.type"]);
});

it("records that the provider does not accept connections", async () => {
  const collecting = await startCollector();
  const running = await startProxied(1, { env: collecting.env });
  expect((await call(`${running.data}/proxy/x`, { headers: running.proxyHeaders })).status).toBe(502);
  await expect.poll(collecting.spans).toHaveLength(2);
  expect(collecting.spans().map(({ attributes }) => attributes["error.type"])).toEqual([
    "provider_unreachable",
    "provider_unreachable",
  ]);
  expect(ofKind(collecting.spans(), "client")[0]?.attributes).not.toHaveProperty(["http.response.status_code"]);
});

it("creates a span for each attempt, and counts them", async () => {
  const answers = [said(503), said(429)];
  const { ask, requests, spans } = await against((request, socket, count) => {
    const next = answers.shift();
    if (next === undefined) ok(request, socket, count);
    else socket.write(next);
  });
  expect((await ask({ headers: { traceparent: sampled, retries: "2" } })).status).toBe(200);
  const all = await spans(4);
  const [server] = ofKind(all, "server");
  const attempts = ofKind(all, "client");
  expect(server).toMatchObject({
    isError: false,
    attributes: { "latchkey.retries": 2, "http.response.status_code": 200 },
  });
  expect(
    attempts.map(({ attributes }) => [
      attributes["http.response.status_code"],
      attributes["http.request.resend_count"],
    ]),
  ).toEqual([
    [503, undefined],
    [429, 1],
    [200, 2],
  ]);
  expect(attempts.every(({ parentSpanId }) => parentSpanId === server?.spanId)).toBe(true);
  expect(requests().flatMap((request) => fieldsOf(request, "traceparent"))).toEqual(
    attempts.map(({ spanId }) => `00-${traceId}-${spanId}-01`),
  );
  // The wait between two attempts belongs to neither.
  const [first, second] = attempts as [CollectedSpan, CollectedSpan];
  expect(second.startNs - first.endNs).toBeGreaterThan(50_000_000n);
});

it("ends with a stream, and not before", async () => {
  let finish = () => {};
  const { running, spans, collecting } = await against((_, socket) => {
    socket.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n");
    finish = () => void socket.write("0\r\n\r\n");
  });
  const asked = call(`${running.data}/proxy/x`, { headers: running.proxyHeaders });
  await sleep(150);
  expect(collecting.spans()).toEqual([]);
  finish();
  expect((await asked).outcome).toBe("ended");
  for (const span of await spans(2)) {
    expect(span.isError).toBe(false);
    expect(span.endNs - span.startNs).toBeGreaterThan(100_000_000n);
  }
});

it("records which side cut a response", async () => {
  const begun = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this";
  const byProvider = await against(
    (_, socket) => void socket.write(begun, () => setTimeout(() => socket.destroy(), 50)),
  );
  expect((await byProvider.ask()).outcome).toBe("cut");
  for (const span of await byProvider.spans(2)) {
    expect(span).toMatchObject({
      isError: true,
      attributes: { "error.type": "provider_closed", "http.response.status_code": 200 },
    });
  }
  const byCaller = await against((_, socket) => void socket.write(begun));
  const { hostname, port } = new URL(byCaller.running.data);
  const socket = connect(Number(port), hostname);
  socket.write(`GET /proxy/x HTTP/1.1\r\nHost: localhost\r\n${byCaller.running.proxyLines}\r\n`);
  await once(socket, "data");
  socket.destroy();
  for (const span of await byCaller.spans(2)) {
    expect(span).toMatchObject({
      isError: true,
      attributes: { "error.type": "caller_left", "http.response.status_code": 200 },
    });
  }
  // The provider fails before any response.
  const silent = await against(() => {});
  const early = connect(Number(new URL(silent.running.data).port), hostname);
  early.write(`GET /proxy/x HTTP/1.1\r\nHost: localhost\r\n${silent.running.proxyLines}\r\n`);
  await expect.poll(silent.requests).toHaveLength(1);
  early.destroy();
  for (const span of await silent.spans(2)) {
    expect(span).toMatchObject({ isError: true, attributes: { "error.type": "caller_left" } });
    expect(span.attributes).not.toHaveProperty(["http.response.status_code"]);
  }
});

const handshake = (lines: string) =>
  `GET /proxy/ws HTTP/1.1\r\nHost: localhost\r\n${lines}Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\ntraceparent: ${sampled}\r\n\r\n`;

it("joins the trace of a WebSocket's request, and does not wait for the tunnel to end", async () => {
  const { running, requests, spans } = await against((_, socket) => {
    socket.write(
      "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n",
    );
  });
  const wire = await openWire(running.data);
  wire.send(handshake(running.proxyLines));
  const all = await spans(2);
  const [client] = ofKind(all, "client");
  expect(fieldsOf(requests()[0] as RecordedRequest, "traceparent")).toEqual([`00-${traceId}-${client?.spanId}-01`]);
  for (const span of all)
    expect(span).toMatchObject({ traceId, isError: false, attributes: { "http.response.status_code": 101 } });
});

it("describes the refusal of a WebSocket request", async () => {
  const refused = await against((_, socket) => void socket.end(said(403)));
  await refused.running.raw(handshake(refused.running.proxyLines));
  const all = await refused.spans(2);
  expect(ofKind(all, "client")[0]).toMatchObject({ isError: true, attributes: { "error.type": "403" } });
  expect(ofKind(all, "server")[0]).toMatchObject({ isError: false, attributes: { "http.response.status_code": 403 } });
  const gone = await against((_, socket) => void socket.destroy());
  await gone.running.raw(handshake(gone.running.proxyLines));
  for (const span of await gone.spans(2))
    expect(span).toMatchObject({ isError: true, attributes: { "error.type": "provider_closed" } });
  const cut = await against(
    (_, socket) =>
      void socket.write("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", () =>
        setTimeout(() => socket.destroy(), 50),
      ),
  );
  await cut.running.raw(handshake(cut.running.proxyLines));
  for (const span of await cut.spans(2))
    expect(span).toMatchObject({ isError: true, attributes: { "error.type": "provider_closed" } });
});

it("exports the ended spans when it stops", async () => {
  const { collecting, running, ask } = await against(ok, { env: { OTEL_BSP_SCHEDULE_DELAY: "600000" } });
  for (let i = 0; i < 10; i += 1) await ask();
  await sleep(50);
  expect(collecting.spans()).toEqual([]);
  await running.stop();
  expect(collecting.spans()).toHaveLength(20);
});

it("exports the spans that the end of the grace period cut off", async () => {
  const { collecting, running } = await against(() => {}, { env: { LATCHKEY_GRACE: "200ms" } });
  const asked = call(`${running.data}/proxy/x`, { headers: running.proxyHeaders }).catch((error: Error) => error);
  await expect.poll(() => running.metric("latchkey_proxy_open")).toBe(1);
  await running.stop();
  await asked;
  expect(collecting.spans()).toHaveLength(2);
});

it("sends batches of the configured size", async () => {
  const { collecting, running, ask } = await against(ok, {
    env: { OTEL_BSP_SCHEDULE_DELAY: "600000", OTEL_BSP_MAX_EXPORT_BATCH_SIZE: "4" },
  });
  for (let i = 0; i < 5; i += 1) await ask();
  await expect.poll(() => collecting.posts.map(({ spans }) => spans.length)).toEqual([4, 4]);
  await running.stop();
  expect(collecting.posts.map(({ spans }) => spans.length)).toEqual([4, 4, 2]);
});

it("works without a collector, and counts dropped spans", async () => {
  // An address without a listener.
  const { running, ask } = await against(ok, {
    env: {
      OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:1",
      OTEL_BSP_MAX_QUEUE_SIZE: "6",
      OTEL_BSP_MAX_EXPORT_BATCH_SIZE: "4",
    },
  });
  for (let i = 0; i < 20; i += 1) expect((await ask()).status).toBe(200);
  // At most these of 40 spans are sent or still queued.
  expect(await running.metric("latchkey_spans_dropped_total")).toBeGreaterThanOrEqual(40 - 4 - 6);
  const elapsed = startStopwatch();
  await running.stop();
  expect(elapsed.ms).toBeLessThan(2_000);
  expect(await running.metric("latchkey_spans_dropped_total")).toBe(40);
  const warned = running.logged.filter((line) => line.includes('"door":"spans"'));
  expect(warned).toHaveLength(1);
  expect(warned[0]).toContain("ECONNREFUSED");
});

it("waits for a silent collector neither with requests nor long with a stop", async () => {
  const collector = await startCollector(() => "never");
  const { running, ask } = await against(ok, { collector, env: { LATCHKEY_GRACE: "600ms" } });
  for (let i = 0; i < 5; i += 1) expect((await ask()).status).toBe(200);
  await expect.poll(collector.received).not.toBe("");
  const elapsed = startStopwatch();
  await running.stop();
  expect(elapsed.ms).toBeLessThan(1_500);
  expect(await running.metric("latchkey_spans_dropped_total")).toBe(10);
});

it("retries what a collector refused temporarily", async () => {
  const collector = await startCollector((count) =>
    count === 0 ? { status: 503, headers: { "retry-after": "0" } } : { status: 200 },
  );
  const { running, ask, spans } = await against(ok, { collector });
  await ask();
  await spans(2);
  expect(await running.metric("latchkey_spans_dropped_total")).toBe(0);
});

it("repeats at once an export whose connection was closed", async () => {
  const collector = await startCollector((count) => (count === 1 ? "reset" : { status: 200 }));
  const { running, ask, spans } = await against(ok, { collector });
  await ask();
  await spans(2);
  const elapsed = startStopwatch();
  await ask();
  await expect.poll(collector.spans, { interval: 10 }).toHaveLength(4);
  expect(elapsed.ms).toBeLessThan(400);
  expect(running.logged.filter((line) => line.includes('"door":"spans"'))).toEqual([]);
});

it.skipIf(lacks("openssl"))("accepts a collector's TLS certificate of the configured authority only", async () => {
  const folder = await temporaryFolder();
  const ca = createAuthority(folder, "ca");
  const { cert, key } = ca.issue("collector", { names: "IP:127.0.0.1" });
  const other = createAuthority(folder, "other");
  const tls = { cert: pem(cert), key: pem(key) };
  for (const [trusted, isTaken] of [
    [ca, true],
    [other, false],
  ] as const) {
    const collector = await startCollector(() => ({ status: 200 }), { tls });
    const provider = await startProvider();
    const running = await startProxied(provider.port, {
      env: { ...collector.env, OTEL_EXPORTER_OTLP_CERTIFICATE: "/ca.pem" },
      files: { "/ca.pem": pem(trusted.cert).toString() },
    });
    await call(`${running.data}/proxy/x`, { headers: running.proxyHeaders });
    await running.stop();
    expect(collector.spans()).toHaveLength(isTaken ? 2 : 0);
    expect(await running.metric("latchkey_spans_dropped_total")).toBe(isTaken ? 0 : 2);
  }
});

it("does not retry what a collector rejects, and counts the rejected spans of a batch", async () => {
  const refusing = await startCollector(() => ({ status: 400 }));
  const one = await against(ok, { collector: refusing });
  await one.ask();
  await expect.poll(() => one.running.metric("latchkey_spans_dropped_total")).toBe(2);
  expect(refusing.received().match(/^POST/gm)).toHaveLength(1);
  const partial = await startCollector(() => ({
    status: 200,
    body: '{"partialSuccess":{"rejectedSpans":"1","errorMessage":"no"}}',
  }));
  const two = await against(ok, { collector: partial });
  await two.ask();
  await expect.poll(() => two.running.metric("latchkey_spans_dropped_total")).toBe(1);
});

it("sends the configured name, attributes and headers, and uses the address for traces", async () => {
  const collector = await startCollector();
  const { ask, spans } = await against(ok, {
    collector,
    env: {
      OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:1",
      OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: `http://127.0.0.1:${collector.port}/some/where?tenant=a`,
      OTEL_EXPORTER_OTLP_HEADERS: "x-tenant=nobody",
      OTEL_EXPORTER_OTLP_TRACES_HEADERS: "authorization=Bearer%20of-the-collector, x-tenant = engines",
      OTEL_SERVICE_NAME: "the-broker",
      OTEL_RESOURCE_ATTRIBUTES: "service.name=not-this,deployment.environment.name=a%2Cb",
    },
  });
  await ask();
  await spans(2);
  const [post] = collector.posts;
  expect(post?.line).toBe("POST /some/where?tenant=a");
  expect(post?.headers).toMatchObject({ authorization: "Bearer of-the-collector", "x-tenant": "engines" });
  expect(post?.resource).toMatchObject({ "service.name": "the-broker", "deployment.environment.name": "a,b" });
});

it("puts no secret, path, query or header into a span", async () => {
  const { collecting, running, ask, requests } = await against((request, socket, count) => {
    if (count % 3 === 1)
      socket.write(
        "HTTP/1.1 500 canary-in-the-reason\r\nX-Canary: canary-in-an-answer\r\nContent-Length: 4\r\n\r\nbody",
      );
    else if (count % 3 === 2) socket.destroy();
    else ok(request, socket, count);
  });
  const headers = {
    traceparent: sampled,
    tracestate: "canary=canary-in-state",
    "x-canary": "canary-in-a-field",
    "user-agent": "canary-in-agent",
  };
  const path = "/proxy/canary-in-the-path?canary=canary-in-the-query";
  for (let i = 0; i < 3; i += 1) await ask({ method: "POST", headers, body: "canary-in-the-body" }, path);
  await ask({ headers: { ...headers, "connection-id": "canary-of-nobody" } }, path);
  await ask({ headers: { ...headers, "base-url-override": "https://canary-in-an-override.example" } }, path);
  await call(`${running.data}${path}`, { headers: { ...headers, authorization: "Bearer canary-in-a-key" } });
  await ask({ method: "CHECKOUT", headers }, path);
  await running.raw(handshake(`${running.proxyLines}x-canary: canary-in-a-socket\r\n`));
  await running.stop();
  // The provider received it: a search there finds the text.
  expect(
    requests()
      .map(({ line }) => line)
      .join(),
  ).toContain("canary-in-the-query");
  expect(ofKind(collecting.spans(), "server")).toHaveLength(8);
  const everything = collecting.received();
  expect(everything).not.toContain("canary");
  for (const secret of [apiKey, secretKey, adminKey]) {
    for (const form of formsOf(secret)) expect(everything).not.toContain(form);
  }
  expect(ofKind(collecting.spans(), "client").map(({ attributes }) => attributes["http.request.method"])).toContain(
    "_OTHER",
  );
});
