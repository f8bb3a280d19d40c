import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { stat, writeFile } from "node:fs/promises";
import http, { type IncomingMessage } from "node:http";
import { connect } from "node:net";
import { join } from "node:path";
import tls from "node:tls";
import grpc from "@grpc/grpc-js";
import { expect, it } from "vitest";
import { startStopwatch } from "../../support/runner/stopwatch.ts";
import { head, openWire, say, sidecarOfFile, statusOf } from "../../support/sidecar/door.ts";
import {
  adminKey,
  createIntegrations,
  startTestSidecar,
  type TestSidecar,
  temporaryFolder,
} from "../../support/sidecar/harness.ts";
import { lacks } from "../../support/sidecar/needs.ts";
import { serveInProcess } from "../../support/sidecar/process.ts";
import { type Authority, type Certificate, createAuthority, pem } from "../control-plane/certificates.ts";
import { endOf, foreignClient, type Plain, post, rawGrpc } from "../control-plane/foreign.ts";

const running = sidecarOfFile();
const checkPath = "/grpc.health.v1.Health/Check";
const listPath = "/latchkey.v1.ConnectionService/ListConnections";
const jsonBody = ["content-type: application/json", "content-length: 2"];

it.each(["evil.test", "0.0.0.0:3004", "[::]:3004", "localhost.evil.test", "user@localhost", ""])(
  "K01 refuses a request for the host %j",
  async (host) => {
    const { control, data } = running();
    const rpc = await say(control, `${head(`POST ${checkPath} HTTP/1.1`, `host: ${host}`, ...jsonBody)}{}`);
    expect(statusOf(rpc)).toBe(421);
    expect(rpc).toContain("latchkey-error: misdirected_request");
    expect(statusOf(await say(data, head("GET /health HTTP/1.1", `host: ${host}`)))).toBe(421);
  },
);

it("K01 asks the same of HTTP/2", async () => {
  const { control } = running();
  expect(await rawGrpc(control, checkPath, { headers: { ":authority": "evil.test" } })).toMatchObject({ status: 421 });
  expect(await rawGrpc(control, checkPath, { headers: { ":authority": "localhost" } })).toMatchObject({ code: 0 });
});

it.each([
  ["a foreign origin", { origin: "https://evil.test" }],
  ["a page without an origin of its own", { origin: "null" }],
  ["a request that a foreign page caused", { "sec-fetch-site": "cross-site" }],
  ["a request that a sibling site's page caused", { "sec-fetch-site": "same-site" }],
])("K02 refuses %s on the control port, without CORS", async (_what, headers: Record<string, string>) => {
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`);
  const { control } = running();
  const answer = await say(
    control,
    `${head(`POST ${checkPath} HTTP/1.1`, "host: localhost", ...lines, ...jsonBody)}{}`,
  );
  expect(statusOf(answer)).toBe(403);
  expect(answer).not.toMatch(/access-control/i);
  const preflight = await say(
    control,
    head(`OPTIONS ${listPath} HTTP/1.1`, "host: localhost", ...lines, "access-control-request-method: POST"),
  );
  expect(statusOf(preflight)).toBe(403);
  expect(preflight).not.toMatch(/access-control/i);
});

it("K02 serves its own pages, and clients other than browsers", async () => {
  const { control } = running();
  for (const headers of [{ origin: control }, { "sec-fetch-site": "none" }, { "sec-fetch-site": "same-origin" }, {}]) {
    const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`);
    const answer = await say(
      control,
      `${head(`POST ${checkPath} HTTP/1.1`, "host: localhost", ...lines, ...jsonBody)}{}`,
    );
    expect({ headers, status: statusOf(answer) }).toEqual({ headers, status: 200 });
  }
});

it("K04 keeps the number of series constant, whatever the names of connections and callers", async () => {
  const { control, ops, rest } = running();
  const series = async () => {
    const text = await (await fetch(`${ops}/metrics`)).text();
    // Metrics of the runtime vary from moment to moment.
    return text.split("\n").filter((line) => line.startsWith("latchkey_"));
  };
  const useAll = async (round: number) => {
    const connections = Array.from({ length: 1_000 }, (_, i) => ({
      environment: "dev",
      integration: "keyed",
      id: `k04-${round}-${i}`,
      credentials: { apiKey: { apiKey: "k" } },
    }));
    await post(control, "ConnectionService/BatchImportConnections", { connections });
    for (let i = 0; i < 50; i += 1) {
      await rest("GET", `/connections/k04-${round}-${i}?provider_config_key=keyed`);
      await post(control, "ConnectionService/GetConnection", {
        ref: { integration: "keyed", id: `k04-${round}-${i}` },
      });
      await post(control, `k04.v1.Made-Up-${round}-${i}/Method`, {}, { headers: { "x-made-up": `k04-${i}` } });
      await rest("GET", `/k04-${round}-${i}`);
    }
  };
  await useAll(0);
  const before = await series();
  for (let round = 1; round < 6; round += 1) await useAll(round);
  const after = await series();
  expect(after.length).toBe(before.length);
  expect(after.length).toBeGreaterThan(50);
  expect(after.filter((line) => line.includes("k04"))).toEqual([]);
});

it("K05 refuses a revoked key everywhere within a second", async () => {
  const { control, rest } = running();
  const { body } = await post(control, "EnvironmentService/CreateKey", { environment: "dev", id: "k05" });
  const { secret } = body as { secret: string };
  const watching = foreignClient(control).serverStream(
    "ConnectionService/WatchConnections",
    { environment: "dev" },
    { key: secret },
  );
  const ended = endOf(watching);
  await new Promise<void>((resolve) => {
    watching.on("data", ({ marker }: Plain) => marker?.kind === "KIND_SNAPSHOT_END" && resolve());
  });
  expect((await rest("GET", "/connections?limit=1", { key: secret })).status).toBe(200);

  const elapsed = startStopwatch();
  await post(control, "EnvironmentService/RevokeKey", { id: "k05" });
  expect((await rest("GET", "/connections?limit=1", { key: secret })).status).toBe(401);
  const { status, body: refused } = await post(control, "ConnectionService/ListConnections", {}, { key: secret });
  expect([status, refused["code"]]).toEqual([401, "unauthenticated"]);
  // An open stream ends too, although nothing happens on it.
  expect((await ended).code).toBe(grpc.status.UNAUTHENTICATED);
  expect(elapsed.ms).toBeLessThan(3_000);
});

it("K06 opens a Unix socket to its user and group alone", async () => {
  const folder = await temporaryFolder();
  const path = join(folder, "control.sock");
  const { control, stop } = await startTestSidecar({ env: { LATCHKEY_CONTROL_LISTEN: `unix:${path}` } });
  expect(control).toBe(`unix:${path}`);
  const found = await stat(path);
  expect(found.isSocket()).toBe(true);
  expect((found.mode & 0o777).toString(8)).toBe("660");

  const foreign = foreignClient(control);
  expect(await foreign.unary("grpc.health.v1.Health/Check", {}, { key: "" })).toMatchObject({ status: "SERVING" });
  const listed = await foreign.unary("EnvironmentService/ListEnvironments", {});
  expect(listed["environments"].map(({ name }: Plain) => name)).toEqual(["dev"]);
  const status = await new Promise((resolve, reject) => {
    const request = http.request(
      {
        socketPath: path,
        path: listPath,
        method: "POST",
        headers: { host: "localhost", "content-type": "application/json", authorization: `Bearer ${adminKey}` },
      },
      (answer: IncomingMessage) => resolve(answer.resume().statusCode),
    );
    request.on("error", reject).end("{}");
  });
  expect(status).toBe(200);
  await stop();
  await expect(stat(path)).rejects.toThrow("ENOENT");
});

interface Guarded {
  readonly address: string;
  readonly authority: Authority;
  readonly stranger: Authority;
  readonly app: Certificate;
}

/** A latchkey whose control port accepts certificates of one authority, with one name. */
async function serveGuarded(): Promise<Guarded> {
  const folder = await temporaryFolder();
  const authority = createAuthority(folder, "authority");
  const server = authority.issue("server", { names: "DNS:localhost,IP:127.0.0.1" });
  const file = join(folder, "latchkey.yaml");
  await writeFile(
    file,
    JSON.stringify({
      tls: { control: { ...server, client_ca: authority.cert, client_names: ["DNS:app.test"] } },
    }),
  );
  const { address } = await serveInProcess({ folder: join(folder, "store"), env: { LATCHKEY_CONFIG: file } });
  return {
    address: address("control"),
    authority,
    stranger: createAuthority(folder, "stranger"),
    app: authority.issue("app", { names: "DNS:other.test,DNS:app.test" }),
  };
}

const health = (address: string, credentials: grpc.ChannelCredentials) =>
  foreignClient(address, credentials)
    .unary("grpc.health.v1.Health/Check", {}, { key: "", deadlineMs: 5_000 })
    .then(
      ({ status }) => String(status),
      ({ code }: Plain) => grpc.status[code as number],
    );

it.skipIf(lacks("openssl"))("K06 accepts only a certificate with the right name", async () => {
  const { address, authority, stranger, app } = await serveGuarded();
  expect(address).toMatch(/^https:/);
  const ca = pem(authority.cert);
  const as = ({ cert, key }: Certificate) => grpc.credentials.createSsl(ca, pem(key), pem(cert));
  expect(await health(address, as(app))).toBe("SERVING");

  expect(await health(address, grpc.credentials.createSsl(ca))).toBe("UNAVAILABLE");
  const refused = {
    "of another name": authority.issue("other", { names: "DNS:other.test" }),
    "of a longer name": authority.issue("longer", { names: "DNS:app.test.evil.test" }),
    "with the name inside another": authority.issue("odd", { names: '@names\n[names]\nDNS.1="a, DNS:app.test, b"' }),
    "with the name as another kind": authority.issue("kind", { names: "URI:app.test" }),
    "that has expired": authority.issue("expired", { names: "DNS:app.test", days: -1 }),
    "of another authority": stranger.issue("strange", { names: "DNS:app.test" }),
  };
  for (const [what, certificate] of Object.entries(refused)) {
    expect({ what, status: await health(address, as(certificate)) }).toEqual({ what, status: "UNAVAILABLE" });
  }
  // Plain HTTP and a connection without a TLS hello are refused too.
  const wire = await openWire(address);
  wire.send(`${head(`POST ${checkPath} HTTP/1.1`, "host: localhost", ...jsonBody)}{}`);
  expect(await wire.ended).not.toContain("SERVING");
  expect(await health(address, as(app))).toBe("SERVING");
});

it.skipIf(lacks("openssl"))("K06 speaks HTTP/1.1 and HTTP/2 under TLS, and no TLS older than 1.2", async () => {
  const { address, authority, app } = await serveGuarded();
  const { port } = new URL(address);
  const offer = {
    port: Number(port),
    host: "127.0.0.1",
    ca: pem(authority.cert),
    cert: pem(app.cert),
    key: pem(app.key),
  };
  const overHttp1 = await new Promise<string>((resolve, reject) => {
    const socket = tls.connect({ ...offer, ALPNProtocols: ["http/1.1"] }, () => {
      socket.write(`${head(`POST ${checkPath} HTTP/1.1`, "host: localhost", "connection: close", ...jsonBody)}{}`);
    });
    let text = "";
    socket.setEncoding("latin1").on("data", (chunk: string) => {
      text += chunk;
    });
    socket.once("end", () => resolve(text)).once("error", reject);
  });
  expect(overHttp1).toContain("SERVING");
  const tooLarge = await new Promise<string>((resolve, reject) => {
    const socket = tls.connect({ ...offer, ALPNProtocols: ["http/1.1"] }, () => {
      socket.write(head(`POST ${checkPath} HTTP/1.1`, "host: localhost", `x-large: ${"y".repeat(20_000)}`));
    });
    socket
      .setEncoding("latin1")
      .once("data", (text: string) => resolve(text))
      .once("error", reject);
  });
  expect(statusOf(tooLarge)).toBe(431);
  const old = tls.connect({ ...offer, minVersion: "TLSv1.1", maxVersion: "TLSv1.1", ciphers: "DEFAULT@SECLEVEL=0" });
  const [error] = (await once(old, "error")) as [NodeJS.ErrnoException];
  expect(error.message).toMatch(/protocol version|unsupported protocol|no protocols/i);
});

it("K08 shows nothing of the ops port on the data port, and of errors only their count", async () => {
  const { data, control, ops, rest } = running();
  for (const path of ["/metrics", "/livez", "/readyz", "/startupz"]) {
    const onData = await rest("GET", path);
    expect({ path, status: onData.status, code: onData.body.error.code }).toEqual({
      path,
      status: 404,
      code: "not_found",
    });
    expect((await fetch(`${control}${path}`)).status).toBe(404);
    const onOps = await fetch(`${ops}${path}`);
    expect({ path, status: onOps.status }).toEqual({ path, status: 200 });
    expect(onOps.headers.get("cache-control")).toBe("no-store");
  }
  expect((await fetch(`${data}/health`)).status).toBe(200);
  expect(await (await fetch(`${ops}/health`)).text()).toBe("not found\n");
  expect(await (await fetch(`${ops}/metrics`, { method: "POST" })).text()).toBe("method not allowed\n");
});

it("K09 takes a million random bytes on every port, and warns of each peer once a minute", async () => {
  let now = Date.now();
  const own = await startTestSidecar({ now: () => now });
  await createIntegrations(own);
  const doors = { data: own.data, control: own.control, ops: own.ops };
  const warnings = () =>
    own.logged.filter((line) => line.includes('"level":"warn"')).map((line) => JSON.parse(line) as Plain);
  await sendNoise(doors);
  await expectWell(own);
  for (const door of ["data", "control"]) {
    expect({ door, count: warnings().filter((one) => one["door"] === door).length }).toEqual({ door, count: 1 });
  }
  now += 61_000;
  await sendNoise(doors);
  await expectWell(own);
  for (const door of ["data", "control"]) {
    expect({ door, count: warnings().filter((one) => one["door"] === door).length }).toEqual({ door, count: 2 });
  }
  // A log line stays one line, and holds nothing of the input.
  for (const warning of warnings())
    expect(Object.keys(warning).sort()).toEqual(["door", "level", "msg", "peer", "reason", "time"]);
});

/** Sends a million bytes to each listener: at once, over many connections, and after the HTTP/2 preface. */
async function sendNoise(doors: Readonly<Record<string, string>>): Promise<void> {
  const preface = Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
  for (const address of Object.values(doors)) {
    const noises = [
      randomBytes(500_000),
      Buffer.concat([preface, randomBytes(250_000)]),
      ...Array.from({ length: 50 }, () => randomBytes(5_000)),
    ];
    for (const noise of noises) {
      const { port } = new URL(address);
      const socket = connect(Number(port), "127.0.0.1");
      // The listener may close the connection at any byte.
      socket.on("error", () => {});
      const closed = new Promise<void>((resolve) => socket.once("close", () => resolve()));
      socket.end(noise);
      socket.resume();
      await closed;
    }
  }
}

async function expectWell({ data, control, ops }: TestSidecar): Promise<void> {
  expect((await fetch(`${data}/health`)).status).toBe(200);
  expect((await post(control, "ConnectionService/ListConnections", {})).status).toBe(200);
  expect((await rawGrpc(control, listPath)).code).toBe(0);
  expect((await fetch(`${ops}/readyz`)).status).toBe(200);
}
