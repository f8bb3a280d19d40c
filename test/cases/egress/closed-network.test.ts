import { once } from "node:events";
import { writeFileSync } from "node:fs";
import http from "node:http";
import { type AddressInfo, connect } from "node:net";
import { join } from "node:path";
import { createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import grpc from "@grpc/grpc-js";
import { expect, it, onTestFinished } from "vitest";
import { WebSocket, WebSocketServer } from "ws";
import { allowPrivateFor, describeProviders } from "../../../src/dev/sandbox/providers.ts";
import { startIssuer } from "../../support/identities/issuer.ts";
import { startApplication } from "../../support/peers/application.ts";
import { startCollector } from "../../support/peers/collector.ts";
import { grpcCaller, metadataOf, serverCredentials, startGrpcProvider } from "../../support/peers/grpc-provider.ts";
import { apiKey, startProvider } from "../../support/peers/provider.ts";
import { startSquid } from "../../support/peers/squid.ts";
import { openClosedNetwork } from "../../support/sidecar/closed-network.ts";
import { adminKey, secretKey, type TestSidecar, temporaryFolder } from "../../support/sidecar/harness.ts";
import { lacks } from "../../support/sidecar/needs.ts";
import { serveInProcess } from "../../support/sidecar/process.ts";
import { createAuthority } from "../control-plane/certificates.ts";
import { openEdge } from "../edges/test-edge.ts";
import { started } from "../sandbox/started.ts";

async function startEcho(): Promise<number> {
  const server = http.createServer();
  const sessions = new WebSocketServer({ server });
  sessions.on("connection", (session) => session.on("message", (data) => session.send(`echo ${data}`)));
  await once(server.listen(0, "127.0.0.1"), "listening");
  onTestFinished(() => {
    for (const session of sessions.clients) session.terminate();
    server.close();
  });
  return (server.address() as AddressInfo).port;
}

interface Asked {
  readonly status: number;
  readonly headers: http.IncomingHttpHeaders;
  readonly body: string;
}

/** Requests to a listener on a socket of the file system. */
const askerOf =
  (socketPath: string) =>
  (method: string, path: string, headers: http.OutgoingHttpHeaders = {}, body?: object): Promise<Asked> =>
    new Promise((resolve, reject) => {
      const type = body === undefined ? {} : { "content-type": "application/json" };
      const options = { socketPath, method, path, headers: { host: "localhost", ...type, ...headers } };
      const request = http.request(options, (response) => {
        let text = "";
        response.setEncoding("utf8").on("data", (part: string) => {
          text += part;
        });
        response.on("end", () => resolve({ status: response.statusCode ?? 0, headers: response.headers, body: text }));
      });
      request.on("error", reject).end(body === undefined ? undefined : JSON.stringify(body));
    });

const authorization = `Bearer ${secretKey}`;
const keyed = (name: string) => ({ authorization, "provider-config-key": name, "connection-id": "ada" });

async function startAll() {
  const squid = await startSquid();
  const { hostname, port } = new URL(squid.url);
  const network = await openClosedNetwork({ host: hostname, port: Number(port) });
  const folder = await temporaryFolder();
  const ca = createAuthority(folder, "ca");
  const own = ca.issue("here", { names: "IP:127.0.0.1" });
  const grpcProvider = await startGrpcProvider({ credentials: serverCredentials(own.cert, own.key) });
  const peers = {
    sandbox: await started({ behaviour: { consent: "allow" } }),
    application: await startApplication(),
    issuer: await startIssuer(),
    collector: await startCollector(),
    direct: await startProvider(),
    grpcProvider,
    echoPort: await startEcho(),
  };
  const { sandbox, application, issuer, collector, direct, echoPort } = peers;
  const simple = (name: string, to: number) => ({
    name,
    api_key: { header: "x-api-key" },
    proxy: { base_url: `https://127.0.0.1:${to}` },
  });
  const config = {
    providers: [
      ...describeProviders(sandbox.origin),
      simple("grpc", grpcProvider.port),
      simple("echo", echoPort),
      simple("direct", direct.port),
    ],
    integrations: [
      {
        ...{ environment: "dev", key: "sandbox-files", provider: "sandbox-files" },
        oauth: { client_id: "sandbox", client_secret: { env: "APP_SECRET" } },
      },
      ...["grpc", "echo", "direct"].map((name) => ({ environment: "dev", key: name, provider: name })),
    ],
    edges: {
      service_accounts: {
        ...{ issuer: issuer.url, audience: "latchkey" },
        allow: [{ account: "shop/checkout", environments: ["dev"] }],
      },
    },
  };
  writeFileSync(join(folder, "latchkey.yaml"), JSON.stringify(config));
  const [data, control] = [join(folder, "data.sock"), join(folder, "control.sock")];
  const proxy = new URL(squid.url);
  const running = await serveInProcess({
    folder: join(folder, "store"),
    within: network.within,
    env: {
      ...network.env,
      ...collector.env,
      APP_SECRET: "sandbox-secret",
      LATCHKEY_CONFIG: join(folder, "latchkey.yaml"),
      LATCHKEY_DATA_LISTEN: `unix:${data}`,
      LATCHKEY_CONTROL_LISTEN: `unix:${control}`,
      LATCHKEY_PUBLIC_URL: "http://localhost:9",
      LATCHKEY_FORWARD_URL: application.url,
      LATCHKEY_PROVIDER_CA: ca.cert,
      LATCHKEY_ALLOW_PRIVATE: [
        allowPrivateFor(sandbox.origin),
        `127.0.0.1:${grpcProvider.port}`,
        ...[echoPort, direct.port].map((to) => `http://127.0.0.1:${to}`),
      ].join(),
      LATCHKEY_EGRESS_PROXY: `http://${network.gate.host}:${network.gate.port}`,
      LATCHKEY_EGRESS_AUTH: `${proxy.username}:${decodeURIComponent(proxy.password)}`,
      LATCHKEY_EGRESS_NO_PROXY: `127.0.0.1:${direct.port}`,
    },
  });
  const client: TestSidecar["client"] = (service, key = adminKey) =>
    createClient(
      service,
      createGrpcTransport({
        baseUrl: "http://localhost",
        nodeOptions: { createConnection: () => connect(control) },
        interceptors: [
          (next) => (request) => {
            request.header.set("authorization", `Bearer ${key}`);
            return next(request);
          },
        ],
      }),
    );
  const ask = askerOf(data);
  for (const name of ["grpc", "echo", "direct"]) {
    const body = { provider_config_key: name, connection_id: "ada", credentials: { type: "API_KEY", apiKey } };
    expect((await ask("POST", "/connections", { authorization }, body)).status).toBe(201);
  }
  return { ...peers, squid, running, data, ask, client };
}

it.skipIf(lacks("squid") || lacks("closedNetwork") || lacks("openssl"))(
  "does everything through squid in a network without another way out, and nothing once squid is dead",
  { timeout: 120_000 },
  async () => {
    const all = await startAll();
    const { squid, ask, sandbox, application, issuer, collector, direct, grpcProvider, echoPort } = all;

    // A user connects: the browser goes directly, Latchkey's token request through squid.
    const session = await ask("POST", "/connect/sessions", { authorization }, { end_user: { id: "u1" } });
    const { token } = JSON.parse(session.body).data;
    const begun = await ask("GET", `/oauth/connect/sandbox-files?connect_session_token=${token}`);
    const back = await fetch(String(begun.headers.location), { redirect: "manual" });
    const { pathname, search } = new URL(back.headers.get("location") ?? "");
    const cookie = (begun.headers["set-cookie"] ?? []).map((one) => one.split(";")[0]).join("; ");
    const page = await ask("GET", pathname + search, { cookie });
    expect([page.status, page.body.includes("is connected")]).toEqual([200, true]);
    const [{ connection_id: id }] = JSON.parse(
      (await ask("GET", "/connections", { authorization })).body,
    ).connections.filter(({ provider_config_key: name }: { provider_config_key: string }) => name === "sandbox-files");

    // The application hears of it.
    expect((await application.got(1))[0]?.body).toContain('"type":"auth"');

    // A refresh, and a call.
    const shown = `/connections/${id}?provider_config_key=sandbox-files&force_refresh=true`;
    expect((await ask("GET", shown, { authorization })).status).toBe(200);
    expect(sandbox.seen().requests.token).toBe(2);
    const files = { ...keyed("sandbox-files"), "connection-id": id };
    expect((await ask("GET", "/proxy/drive/v3/files", files)).status).toBe(200);

    // gRPC over TLS and HTTP/2.
    const { say } = grpcCaller(`unix:${all.data}`);
    const said = await say({ text: "hello" }, metadataOf(keyed("grpc")));
    expect([said.answer, said.status.code]).toEqual([{ text: "hello" }, grpc.status.OK]);
    expect(grpcProvider.metadata[0]?.get("x-api-key")).toEqual([apiKey]);

    // A WebSocket.
    const socket = new WebSocket(`ws+unix:${all.data}:/proxy/live`, {
      headers: { host: "localhost", ...keyed("echo") },
    });
    onTestFinished(() => socket.terminate());
    await once(socket, "open");
    socket.send("hi");
    expect(String((await once(socket, "message"))[0])).toBe("echo hi");

    // An edge's token: discovery and keys of its issuer.
    expect((await openEdge({ client: all.client } as TestSidecar, issuer.token()).next("welcome")).environment).toBe(
      "dev",
    );
    expect(issuer.requests.map(({ path }) => path)).toEqual(["/.well-known/openid-configuration", "/openid/v1/jwks"]);

    // Spans.
    await expect.poll(() => collector.spans().length).toBeGreaterThan(0);

    // The direct way is closed: this host is not to go through the proxy.
    const unreachable = await ask("GET", "/proxy/x", keyed("direct"));
    expect([unreachable.status, unreachable.headers["latchkey-error"]]).toEqual([502, "provider_unreachable"]);
    expect(direct.connections).toHaveLength(0);

    // Squid logs a tunnel when the tunnel ends.
    await squid.stop();
    const places = [sandbox.origin, application.url, issuer.url].map((url) => Number(new URL(url).port));
    const expected = [...places, collector.port, grpcProvider.port, echoPort].map(
      (port) => `200 127.0.0.1:${port} ada`,
    );
    const logged = new Set(squid.log().filter((line) => line.startsWith("200 ")));
    expect([...logged].sort()).toEqual(expected.sort());

    const answers = [
      await ask("GET", "/proxy/drive/v3/files", files),
      await ask("GET", "/proxy/drive/v3/files", files),
      await ask("GET", "/proxy/live", keyed("echo")),
    ];
    expect(answers.map(({ status, headers }) => [status, headers["latchkey-error"]])).toEqual(
      answers.map(() => [502, "egress_proxy_failed"]),
    );
    const late = await ask("GET", shown, { authorization });
    expect([late.status, late.headers["latchkey-error"]]).toEqual([503, "refresh_unavailable"]);
    expect(late.body).toContain("egress_proxy");
  },
);
