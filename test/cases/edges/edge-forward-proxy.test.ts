import { execFile } from "node:child_process";
import { X509Certificate } from "node:crypto";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import http2 from "node:http2";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { runCli } from "../../../src/cli/program.ts";
import type { ChildProgram } from "../../../src/cli/terminal/terminal.ts";
import { AuthorityService } from "../../../src/gen/latchkey/v1/authority_pb.ts";
import { EnvironmentService } from "../../../src/gen/latchkey/v1/environment_pb.ts";
import { startUnmanagedEdge, type TestEdge } from "../../support/edges/test-edge.ts";
import {
  apiHost,
  askRaw,
  basic,
  connectForwarded,
  elsewhere,
  furnishForwarded,
  openSecure,
  otherHost,
  sendConnect,
  startTlsProvider,
  type TlsAnswer,
  type TlsProvider,
} from "../../support/peers/forward-proxied.ts";
import { secretKey, startUnmanaged, type TestSidecar } from "../../support/sidecar/harness.ts";
import { lacks } from "../../support/sidecar/needs.ts";
import { memoryTerminal } from "../cli/memory-terminal.ts";
import { edgeKey } from "./test-edge.ts";

/** Says with which credential it was asked. */
const telling: TlsAnswer = ({ url, headers, httpVersion }, response) => {
  response.writeHead(200, { "content-type": "application/json" });
  response.end(JSON.stringify({ url, httpVersion, by: headers.authorization }));
};

const soon = { interval: 20 };

describe.skipIf(lacks("openssl"))("the forward proxy of an edge", () => {
  let provider: TlsProvider;
  let broker: TestSidecar;
  let edge: TestEdge;
  let folder = "";
  let caFile = "";
  let shared = "";
  let several = "";

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "latchkey-edge-forward-"));
    caFile = join(folder, "ca.pem");
    provider = await startTlsProvider({ answer: telling });
    shared = `${apiHost}:${provider.port}`;
    several = `${otherHost}:${provider.port}`;
    const resolve = async () => [{ address: "127.0.0.1", family: 4 as const }];
    const env = { LATCHKEY_ALLOW_PRIVATE: [shared, several].join(","), LATCHKEY_PROVIDER_CA: "/provider-ca" };
    const files = { "/provider-ca": await readFile(provider.ca, "utf8") };
    // The forward proxy of the broker itself is off.
    broker = await startUnmanaged({ folder, resolve, env, files });
    await furnishForwarded(broker, {
      events: { baseUrl: `https://${shared}/calendar` },
      files: { baseUrl: `https://${shared}/drive/v3` },
      several: { baseUrl: `https://${several}`, connections: ["ada", "bob"] },
    });
    const aliases =
      "aliases: [{ name: bob, environment: dev, integration: several, connection: bob, listen: '127.0.0.1:0' }]";
    edge = await startUnmanagedEdge({
      brokers: [broker.control],
      resolve,
      files: { ...files, "/config": aliases },
      env: {
        ...env,
        LATCHKEY_BROKERS_KEY: (await edgeKey(broker)).secret,
        LATCHKEY_BROKERS_DATA: broker.data,
        LATCHKEY_FORWARD_PROXY_LISTEN: "127.0.0.1:0",
        LATCHKEY_FORWARD_PROXY_CA_FILE: caFile,
        LATCHKEY_CONFIG: "/config",
      },
    });
  });
  afterAll(async () => {
    await edge?.stop();
    await broker?.stop();
    provider?.close();
    await rm(folder, { recursive: true, force: true });
  });

  interface AskOptions {
    readonly authorization?: string;
    readonly lines?: string;
    readonly proxy?: string;
  }

  async function ask(authority: string, path: string, { authorization, lines = "", proxy }: AskOptions = {}) {
    const ca = await readFile(caFile, "utf8");
    const client = await openSecure(proxy ?? edge.forward, authority, { ca, authorization });
    const text = await askRaw(client, `GET ${path} HTTP/1.1\r\nHost: ${authority}\r\n${lines}\r\n`);
    client.destroy();
    return text;
  }

  it("chooses connections as a sidecar does", async () => {
    expect(await ask(shared, "/calendar/v3/events")).toContain('"by":"Bearer the-provider-token-of-ada"');
    expect(await ask(shared, "/drive/v30")).toMatch(
      /^HTTP\/1\.1 409 [\s\S]*ambiguous_connection[\s\S]*events\/ada, files\/ada/,
    );
    expect(await ask(several, "/")).toMatch(/^HTTP\/1\.1 409 [\s\S]*several\/ada, several\/bob/);
    const byUser = await ask(several, "/", { authorization: basic("several/bob", secretKey) });
    expect(byUser).toContain('"by":"Bearer the-provider-token-of-bob"');
    const byHeaders = await ask(several, "/", { lines: "Provider-Config-Key: several\r\nConnection-Id: bob\r\n" });
    expect(byHeaders).toContain('"by":"Bearer the-provider-token-of-bob"');
    expect(await ask(several, "/", { proxy: edge.aliases["bob"] ?? "" })).toContain("the-provider-token-of-bob");
  });

  it("refuses hosts that no integration has, and keys that are not known", async () => {
    const { status, text } = await sendConnect(edge.forward, `${elsewhere}:${provider.port}`);
    expect([status, text]).toEqual([403, expect.stringContaining(`allowed: ${shared}, ${several}`)]);
    const other = await sendConnect(edge.forward, shared, { authorization: "Bearer lk_other" });
    expect(other.status).toBe(407);
  });

  it("applies the limits of keys, and of access sessions until they end", async () => {
    const limits = { connections: [{ integration: "several", id: "bob" }], paths: ["/v1/**"] };
    const { secret } = await broker.client(EnvironmentService).createKey({ environment: "dev", limits });
    const limited = { authorization: `Bearer ${secret}` };
    expect(await ask(several, "/v1/x", limited)).toContain('"by":"Bearer the-provider-token-of-bob"');
    expect(await ask(several, "/v2/x", limited)).toMatch(/^HTTP\/1\.1 403 [\s\S]*not_in_session/);
    const { status, text } = await sendConnect(edge.forward, shared, limited);
    expect([status, text]).toEqual([403, expect.stringContaining("not_in_session")]);

    const body = { limits, audience: { listeners: ["forward"] } };
    const { id, token } = (await broker.rest("POST", "/access-sessions", { body })).body.data;
    const authorization = basic("latchkey", token);
    expect(await ask(several, "/v1/x", { authorization })).toContain('"by":"Bearer the-provider-token-of-bob"');
    expect((await broker.rest("DELETE", `/access-sessions/${id}`)).status).toBe(200);
    await expect.poll(async () => (await sendConnect(edge.forward, several, { authorization })).status, soon).toBe(407);
  });

  it("follows connections that come and go", async () => {
    const path = "/drive/v3/files";
    expect(await ask(shared, path)).toContain("200 OK");
    await connectForwarded(broker, "files", "bob");
    await expect.poll(() => ask(shared, path), soon).toMatch(/^HTTP\/1\.1 409 [\s\S]*files\/ada, files\/bob/);
    expect((await broker.rest("DELETE", "/connections/bob?provider_config_key=files")).status).toBe(200);
    await expect.poll(() => ask(shared, path), soon).toContain("200 OK");
  });

  it("speaks HTTP/2 and plain URLs", async () => {
    const ca = await readFile(caFile, "utf8");
    const socket = await openSecure(edge.forward, shared, { ca, tls: { ALPNProtocols: ["h2"] } });
    const session = http2.connect(`https://${shared}`, { createConnection: () => socket });
    const stream = session.request({ ":path": "/calendar/x" });
    let text = "";
    for await (const chunk of stream) text += chunk;
    session.destroy();
    expect(JSON.parse(text)).toMatchObject({ url: "/calendar/x", httpVersion: "2.0" });
    const plain = await sendConnect(edge.forward, shared);
    plain.socket.destroy();
    const { hostname, port } = new URL(edge.forward);
    const { request } = await import("node:http");
    const status = await new Promise<number | undefined>((resolve, reject) => {
      const headers = { host: shared, "proxy-authorization": basic("latchkey", secretKey) };
      request({ hostname, port, path: `http://${shared}/calendar/x`, headers })
        .once("error", reject)
        .once("response", (response) => resolve(response.resume().statusCode))
        .end();
    });
    expect(status).toBe(200);
  });

  it("runs programs for the command line, which needs no control plane", async () => {
    let seen: ChildProgram | undefined;
    const latchkey = async (words: readonly string[]) => {
      const terminal = memoryTerminal({ env: { LATCHKEY_KEY: secretKey, PATH: process.env["PATH"] ?? "" } });
      const runProgram = async (program: ChildProgram) => {
        seen = program;
        await promisify(execFile)(program.command, [...program.args], { env: program.env });
        return 7;
      };
      const code = await runCli(words, { ...terminal, runProgram });
      return { code, out: terminal.out(), err: terminal.err() };
    };
    const program = `const { status } = await fetch("https://${several}/run"); process.exit(status === 200 ? 0 : 1);`;
    const words = ["run", "--edge", edge.data, "--connection", "several/bob", "--", process.execPath];
    const ran = await latchkey([...words, "--input-type=module", "-e", program]);
    expect([ran.code, ran.err]).toEqual([7, ""]);
    const token = new URL(seen?.env["HTTPS_PROXY"] ?? "").password;
    expect(token).toMatch(/^lks_/);
    await expect
      .poll(async () => (await sendConnect(edge.forward, several, { authorization: `Bearer ${token}` })).status, soon)
      .toBe(407);
    const exported = await latchkey(["ca", "export", "--edge", edge.data]);
    expect(exported.code).toBe(0);
    expect(new X509Certificate(exported.out).subject).toContain("Latchkey forward proxy");
    const wrong = await latchkey(["ca", "export", "--edge", "http://127.0.0.1:9"]);
    expect([wrong.code, wrong.err]).toEqual([1, expect.stringContaining("no edge answers")]);
    const unlike = await latchkey(["ca", "export", "--edge", broker.data]);
    expect([unlike.code, unlike.err]).toEqual([1, expect.stringContaining("the forward proxy is off")]);
  });

  it("shows certificates of the brokers' authority, and of the next one after a rotation", async () => {
    const authorities = broker.client(AuthorityService);
    const { certificates } = await authorities.getAuthority({});
    expect(certificates).toHaveLength(1);
    const [first] = certificates;
    expect(await readFile(caFile, "utf8")).toContain(first?.pem);
    const issuerOf = async (ca: string) => {
      const client = await openSecure(edge.forward, shared, { ca });
      const issuer = client.getPeerX509Certificate()?.issuer;
      client.destroy();
      return issuer;
    };
    const subjectOf = (pem = "") => new X509Certificate(pem).subject;
    expect(await issuerOf(first?.pem ?? "")).toBe(subjectOf(first?.pem));
    const rotated = await authorities.rotateAuthority({});
    const second = rotated.certificates[1]?.pem ?? "";
    await expect.poll(() => readFile(caFile, "utf8"), soon).toContain(second);
    expect(await issuerOf(first?.pem ?? "")).toBe(subjectOf(first?.pem));
    const [only] = (await authorities.rotateAuthority({ overlap: { seconds: 0n, nanos: 0 } })).certificates;
    await expect.poll(() => readFile(caFile, "utf8"), soon).toContain(only?.pem);
    expect(await readFile(caFile, "utf8")).not.toContain(second);
    expect(await issuerOf(only?.pem ?? "")).toBe(subjectOf(only?.pem));
  });

  it("goes on with the hosts that it knows while no broker is there", async () => {
    expect(await ask(shared, "/calendar/x")).toContain("200 OK");
    await broker.stop();
    await expect.poll(() => edge.metric("latchkey_edge_connected"), soon).toBe(0);
    expect(await ask(shared, "/calendar/x")).toContain("200 OK");
    const { status, text } = await sendConnect(edge.forward, `${elsewhere}:1`);
    expect([status, text]).toEqual([503, expect.stringContaining("brokers_unavailable")]);
  });
});
