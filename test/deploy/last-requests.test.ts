import { once } from "node:events";
import { readFileSync } from "node:fs";
import { Worker } from "node:worker_threads";
import { expect, it, onTestFinished } from "vitest";
import { createAuthority } from "../cases/control-plane/certificates.ts";
import { startProvider, startProxied } from "../support/peers/provider.ts";
import { startStopwatch } from "../support/runner/stopwatch.ts";
import { openWire } from "../support/sidecar/door.ts";
import { secretKey, startTestSidecar, temporaryFolder } from "../support/sidecar/harness.ts";
import { lacks } from "../support/sidecar/needs.ts";
import { serveInProcess } from "../support/sidecar/process.ts";
import type { CallerKind, LateAnswer, LateCaller, LateCalling } from "./late-callers.ts";

/** Requests that lie unread in the kernel when a stop begins, without a drain delay. */

const kinds = ["fresh", "opened", "kept"] as const satisfies readonly CallerKind[];
/** Callers of a kind: more than one turn of the event loop accepts. */
const many = 8;
/** A handshake has a second, on a busy machine too. */
const fewOverTls = 2;

type Asked = Pick<LateCaller, "name" | "address" | "text" | "headers" | "body">;

const http1 = (method: string, path: string, lines: string, body = ""): string =>
  `${method} ${path} HTTP/1.1\r\nHost: localhost\r\n${lines}Content-Length: ${body.length}\r\n\r\n${body}`;

/** What each listener is asked, over both protocols. */
function asked(
  addresses: Readonly<Record<string, string | undefined>>,
  path: string,
  key: Readonly<Record<string, string>>,
): Asked[] {
  const lines = Object.entries(key)
    .map(([name, value]) => `${name}: ${value}\r\n`)
    .join("");
  const health = "/grpc.health.v1.Health/Check";
  const [data, open, control] = [addresses["data"] ?? "", addresses["public"], addresses["control"] ?? ""];
  return [
    { name: `data ${path}`, address: data, text: http1("GET", path, lines) },
    { name: `data ${path} over HTTP/2`, address: data, headers: { ":method": "GET", ":path": path, ...key } },
    ...(open === undefined ? [] : [{ name: "public /health", address: open, text: http1("GET", "/health", "") }]),
    {
      name: "control, Connect",
      address: control,
      text: http1("POST", health, "content-type: application/json\r\n", "{}"),
    },
    {
      name: "control, gRPC",
      address: control,
      headers: { ":method": "POST", ":path": health, "content-type": "application/grpc", te: "trailers" },
      body: "0000000000",
    },
  ];
}

interface Stopping {
  /** Callers of each kind, for each request. */
  readonly ofKind: number;
  /** Called when the callers have opened their connections. */
  readonly freeze?: () => void;
  readonly stop: () => Promise<unknown>;
}

/** Has the callers send while this thread, with a sidecar in it, is blocked; then stops the sidecar at once. */
async function stopUnder(calls: readonly Asked[], stopping: Stopping): Promise<readonly LateAnswer[]> {
  const { ofKind, freeze, stop } = stopping;
  const callers = calls.flatMap((call) =>
    kinds.flatMap((kind) => Array.from({ length: ofKind }, () => ({ ...call, kind, name: `${call.name}: ${kind}` }))),
  );
  const sent = new SharedArrayBuffer(4);
  const workerData: LateCalling = { callers, sent };
  const worker = new Worker(new URL("late-callers.ts", import.meta.url), { workerData });
  onTestFinished(() => void worker.terminate());
  await once(worker, "message");
  freeze?.();
  worker.postMessage("send");
  expect(Atomics.wait(new Int32Array(sent), 0, 0, 20_000)).not.toBe("timed-out");
  const stopped = stop();
  const [answers] = await once(worker, "message");
  await stopped;
  return answers;
}

/** The callers that were not answered, or not told over HTTP/1.1 to use another connection. */
const lost = (answers: readonly LateAnswer[]): readonly string[] => [
  ...new Set(
    answers
      .filter(({ name, outcome }) => outcome !== (/HTTP\/2|gRPC/.test(name) ? "200" : "200 close"))
      .map(({ name, outcome }) => `${name}: ${outcome}`),
  ),
];

it.each([
  ["on the fast path", "on"],
  ["on the general path", "off"],
])("answers requests that it has not read yet when it is stopped, %s", async (_name, fastPath) => {
  const provider = await startProvider();
  const { sidecar, proxyHeaders, stop, logged } = await startProxied(provider.port, {
    env: { LATCHKEY_FAST_LANE: fastPath, LATCHKEY_PUBLIC_LISTEN: "127.0.0.1:0", LATCHKEY_GRACE: "20s" },
  });
  const calls = asked(sidecar.addresses, "/proxy/x", proxyHeaders);
  const answers = await stopUnder(calls, { ofKind: many, stop });
  expect(lost(answers)).toEqual([]);
  expect(answers).toHaveLength(calls.length * kinds.length * many);
  expect(logged.filter((line) => line.includes("the grace period is over"))).toEqual([]);
});

it("answers them also in a process that is frozen when SIGTERM comes", async () => {
  const { address, child, exited } = await serveInProcess({
    folder: await temporaryFolder(),
    env: { LATCHKEY_GRACE: "20s" },
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  const addresses = { data: address("data"), control: address("control") };
  const calls = asked(addresses, "/connections", { authorization: `Bearer ${secretKey}` });
  const answers = await stopUnder(calls, {
    ofKind: many,
    freeze: () => child.kill("SIGSTOP"),
    stop() {
      child.kill("SIGTERM");
      child.kill("SIGCONT");
      return exited;
    },
  });
  // What a turn of the event loop reads before the signal is answered as before a stop.
  expect(answers.filter(({ outcome }) => !outcome.startsWith("200"))).toEqual([]);
  expect(await exited).toBe(0);
});

it.skipIf(lacks("openssl"))("waits for no TLS handshake that does not end", async () => {
  const { data, control, stop, logged } = await startOverTls();
  const silent = await Promise.all([data, control].map(openWire));
  // The first bytes of a ClientHello.
  const begun = await Promise.all([data, control].map(openWire));
  for (const { send } of begun) send(Buffer.from([22, 3, 1]));
  const elapsed = startStopwatch();
  await stop();
  expect(elapsed.ms).toBeLessThan(8_000);
  for (const { ended } of [...silent, ...begun]) expect(await ended).toBe("");
  expect(logged.filter((line) => line.includes("the grace period is over"))).toEqual([]);
});

it("answers the request that follows a response which could not announce the end", async () => {
  const provider = await startProvider(({ line }, socket) => {
    if (line.includes("/long")) {
      socket.write("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nlo");
      finish = () => void socket.write("ng");
    } else {
      socket.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    }
  });
  let finish: () => void = () => {};
  for (const fastPath of ["on", "off"]) {
    const { data, proxyLines, stop } = await startProxied(provider.port, {
      env: { LATCHKEY_FAST_LANE: fastPath, LATCHKEY_GRACE: "20s" },
    });
    const wire = await openWire(data);
    const get = (path: string) => wire.send(`GET /proxy/${path} HTTP/1.1\r\nHost: localhost\r\n${proxyLines}\r\n`);
    get("long");
    await wire.until((text) => text.endsWith("lo"));
    const stopped = stop();
    finish();
    await wire.until((text) => text.endsWith("long"));
    get("next");
    expect(await wire.ended).toMatch(/long[\s\S]*connection: close[\s\S]*ok$/i);
    await stopped;
  }
});

it.skipIf(lacks("openssl"))("finishes TLS handshakes that have begun, and answers their requests", async () => {
  const { sidecar, stop } = await startOverTls();
  const calls = asked(sidecar.addresses, "/connections", { authorization: `Bearer ${secretKey}` });
  const answers = await stopUnder(calls, { ofKind: fewOverTls, stop });
  expect(lost(answers)).toEqual([]);
  expect(answers).toHaveLength(calls.length * kinds.length * fewOverTls);
});

async function startOverTls() {
  const authority = createAuthority(await temporaryFolder(), "authority");
  const { cert, key } = authority.issue("localhost", { names: "IP:127.0.0.1" });
  return startTestSidecar({
    env: { LATCHKEY_CONFIG: "/config", LATCHKEY_GRACE: "20s" },
    files: {
      "/config": JSON.stringify({ tls: { data: { cert, key }, control: { cert, key } } }),
      [cert]: readFileSync(cert, "utf8"),
      [key]: readFileSync(key, "utf8"),
    },
  });
}
