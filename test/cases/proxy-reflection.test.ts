import { setTimeout as sleep } from "node:timers/promises";
import { gzipSync } from "node:zlib";
import { expect, it } from "vitest";
import { Integration_Reflection, IntegrationService } from "../../src/gen/latchkey/v1/integration_pb.ts";
import { openWire } from "../door.ts";
import { type Answering, startProvider, startProxied } from "../provider.ts";
import { call, faultOf, fieldOf } from "../proxy-call.ts";

type Options = NonNullable<Parameters<typeof startProxied>[1]>;

const secret = "s3cr3t-0123456789-s3cr3t";
const stars = "*".repeat(secret.length);

async function guarded(how: "MASK" | "REFUSE" | "OFF", answer: Answering, options: Options = {}) {
  const provider = await startProvider(answer);
  const running = await startProxied(provider.port, {
    credentials: { type: "API_KEY", apiKey: secret },
    ...options,
  });
  await running.client(IntegrationService).updateIntegration({
    integration: { environment: "dev", key: "here", reflection: Integration_Reflection[how] },
    updateMask: { paths: ["reflection"] },
  });
  const ask = (path: string, headers: Readonly<Record<string, string>> = {}) =>
    call(`${running.data}/proxy${path}`, { headers: { ...running.proxyHeaders, ...headers } });
  return { provider, running, ask };
}

const text = (body: string, more = "Content-Type: application/json\r\n") =>
  `HTTP/1.1 200 OK\r\n${more}Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;

/** Answers by path: `/echo` as `/anything` does it, and in ways that are harder to see. */
const echoing: Answering = async ({ line }, socket) => {
  const [, path = ""] = line.split(" ");
  const echo = JSON.stringify({ headers: { "X-Api-Key": secret }, again: secret });
  socket.setNoDelay(true);
  if (path === "/echo") socket.write(text(echo));
  else if (path === "/untyped") socket.write(text(echo, ""));
  else if (path === "/header")
    socket.write(text("{}", `Content-Type: application/json\r\nX-Debug: key=${secret};\r\n`));
  else if (path === "/reason") socket.write(`HTTP/1.1 200 ${secret}\r\nContent-Length: 0\r\n\r\n`);
  else if (path === "/location")
    socket.write(`HTTP/1.1 302 Found\r\nLocation: /x?key=${secret}\r\nContent-Length: 0\r\n\r\n`);
  else if (path === "/hint") {
    socket.write(`HTTP/1.1 103 Early Hints\r\nLink: </${secret}>; rel=preload\r\n\r\n${text("{}")}`);
  } else if (path === "/trailer") {
    socket.write(
      `HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-Key: ${secret}\r\n\r\n`,
    );
  } else if (path === "/late") socket.write(text(`${" ".repeat(60_000)}${secret}`));
  else if (path === "/encoded") socket.write(text(encodeURIComponent(secret)));
  else if (path === "/clean") socket.write(text('{"s3cr3t":"s3cr3t-0123456789-s3cr3"}'));
  else if (path === "/binary") socket.write(text(echo, "Content-Type: application/octet-stream\r\n"));
  else {
    // `/cut/<at>`, and `/bytes`: in pieces, with the cut somewhere in the secret, or everywhere.
    const whole = text(echo);
    const at = path === "/bytes" ? undefined : Number(path.split("/")[2]);
    const pieces = at === undefined ? [...whole] : [whole.slice(0, at), whole.slice(at)];
    for (const piece of pieces) {
      socket.write(piece);
      await sleep(at === undefined ? 1 : 10);
    }
  }
};

const paths = [
  "/echo",
  "/untyped",
  "/header",
  "/reason",
  "/location",
  "/hint",
  "/trailer",
  "/late",
  "/encoded",
  "/bytes",
];

it("masks the credentials wherever a provider echoes them, and changes nothing else", async () => {
  const { ask, provider, running } = await guarded("MASK", echoing);
  for (const path of paths) {
    const answer = await ask(path);
    expect([answer.status === 200 || answer.status === 302, answer.outcome], path).toEqual([true, "ended"]);
    expect(JSON.stringify(answer), path).not.toContain(secret);
    if (!["/hint", "/untyped"].includes(path)) expect(JSON.stringify(answer), path).toContain(stars);
  }
  expect(JSON.parse((await ask("/echo")).body)).toEqual({ headers: { "X-Api-Key": stars }, again: stars });
  expect((await ask("/clean")).body).toBe('{"s3cr3t":"s3cr3t-0123456789-s3cr3"}');
  // What is to be read must not be compressed.
  expect(provider.received()).not.toMatch(/accept-encoding: (?!identity)/i);
  await ask("/echo", { "accept-encoding": "gzip, br" });
  expect(provider.received()).not.toMatch(/gzip|br\b/);
  const hinted = await running.raw(`GET /proxy/hint HTTP/1.1\r\nHost: localhost\r\n${running.proxyLines}\r\n`);
  expect(hinted).not.toContain(secret);
});

it("masks a secret that came in two pieces, wherever it was cut", async () => {
  const { ask } = await guarded("MASK", echoing);
  const { length } = text(JSON.stringify({ headers: { "X-Api-Key": secret }, again: secret }));
  const answers = await Promise.all(Array.from({ length: length - 1 }, (_, i) => ask(`/cut/${i + 1}`)));
  for (const [i, { body }] of answers.entries()) {
    expect(JSON.parse(body), `cut at ${i + 1}`).toEqual({ headers: { "X-Api-Key": stars }, again: stars });
  }
});

it("refuses an answer that echoes the credentials before any of it has gone on", async () => {
  const { ask, running } = await guarded("REFUSE", echoing);
  for (const path of [...paths.filter((path) => path !== "/hint"), "/cut/90"]) {
    const answer = await ask(path);
    expect([answer.status, faultOf(answer)], path).toEqual([502, "credential_echo"]);
    expect(JSON.stringify(answer), path).not.toContain(secret);
  }
  const clean = await ask("/clean");
  expect([clean.status, clean.body]).toEqual([200, '{"s3cr3t":"s3cr3t-0123456789-s3cr3"}']);
  const hinted = await running.raw(`GET /proxy/hint HTTP/1.1\r\nHost: localhost\r\n${running.proxyLines}\r\n`);
  expect(hinted).not.toContain(secret);
  expect(await running.metric('latchkey_proxy_cut_total{by="caller"}')).toBeUndefined();
  expect(await running.metric("latchkey_proxy_open")).toBe(0);
});

it("leaves what is no text as it is, and everything where nothing was asked for", async () => {
  const masking = await guarded("MASK", echoing);
  expect((await masking.ask("/binary")).body).toContain(secret);
  const off = await guarded("OFF", echoing);
  expect((await off.ask("/echo")).body).toContain(secret);
  await off.ask("/echo", { "accept-encoding": "gzip" });
  expect(off.provider.received()).toContain("accept-encoding: gzip");
});

it("finds the secret behind whatever the provider wants before it", async () => {
  for (const [auth, credentials, echo] of [
    [
      { case: "oauth2", value: { authorizationUrl: "https://a.example/a", tokenUrl: "https://a.example/t" } },
      { type: "OAUTH2", access_token: secret },
      secret,
    ],
    [
      { case: "apiKey", value: { header: "authorization", prefix: "Token token=" } },
      { type: "API_KEY", apiKey: secret },
      secret,
    ],
    [
      { case: "apiKey", value: { query: "key" } },
      { type: "API_KEY", apiKey: `${secret}&=` },
      encodeURIComponent(`${secret}&=`),
    ],
    [{ case: "basic", value: {} }, { type: "BASIC", username: "ada", password: secret }, btoa(`ada:${secret}`)],
  ] as const) {
    const { ask, running } = await guarded("MASK", (_, socket) => void socket.write(text(`"${echo}"`)), {
      provider: { auth },
      credentials,
    });
    expect((await ask("/x")).body).toBe(`"${"*".repeat(echo.length)}"`);
    await running.stop();
  }
});

it("does not hold a stream of events back while it looks at it", async () => {
  for (const how of ["MASK", "REFUSE"] as const) {
    const { running } = await guarded(how, (_, socket) => {
      socket.write("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n");
      const say = (event: string) => socket.write(`${event.length.toString(16)}\r\n${event}\r\n`);
      setTimeout(() => say("data: one\n\n"), 50);
      setTimeout(() => say(`data: ${secret}\n\n`), 100);
    });
    const wire = await openWire(running.data);
    wire.send(`GET /proxy/events HTTP/1.1\r\nHost: localhost\r\n${running.proxyLines}\r\n`);
    await wire.until((all) => all.includes("data: one\n\n"));
    expect(await wire.until((all) => all.includes(`data: ${stars}\n\n`))).not.toContain(secret);
    wire.socket.destroy();
  }
});

it("hands a compressed answer on as it is: who compresses unasked is not looked into", async () => {
  const packed = gzipSync(JSON.stringify({ key: secret })).toString("latin1");
  const { ask } = await guarded("MASK", (_, socket) => {
    const head = `Content-Type: application/json\r\nContent-Encoding: gzip\r\nContent-Length: ${packed.length}`;
    socket.write(`HTTP/1.1 200 OK\r\n${head}\r\n\r\n${packed}`, "latin1");
  });
  const answer = await ask("/x");
  expect([answer.body === packed, fieldOf(answer, "content-encoding")]).toEqual([true, "gzip"]);
});
