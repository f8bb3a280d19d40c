import { once } from "node:events";
import { mkdtempSync, readFileSync } from "node:fs";
import type { IncomingMessage, ServerResponse } from "node:http";
import http2 from "node:http2";
import { type AddressInfo, connect, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import tls, { type ConnectionOptions, type TLSSocket } from "node:tls";
import { AuthorityService } from "../../../src/gen/latchkey/v1/authority_pb.ts";
import { ProviderService } from "../../../src/gen/latchkey/v1/provider_pb.ts";
import { createAuthority } from "../../cases/control-plane/certificates.ts";
import { type HarnessOptions, secretKey, startUnmanaged, type TestSidecar } from "../sidecar/harness.ts";

/** Names end in a domain that no name server knows: only the sidecar of a test resolves them. */
export const apiHost = "api.provider.test";
export const otherHost = "other.provider.test";
export const elsewhere = "elsewhere.test";
/** What the provider wants to see. */
export const providerToken = "the-provider-token-of-ada";

export interface SeenRequest {
  readonly method: string;
  readonly host: string;
  readonly url: string;
  readonly httpVersion: string;
  readonly headers: IncomingMessage["headers"];
  readonly body: string;
  readonly bytes: Buffer;
}

/** A provider over TLS with HTTP/1.1 and HTTP/2, under several names. */
export interface TlsProvider {
  readonly port: number;
  readonly address: string;
  readonly seen: SeenRequest[];
  readonly server: http2.Http2SecureServer;
  /** PEM file of its authority. */
  readonly ca: string;
  close(): void;
}

export type TlsAnswer = (seen: SeenRequest, response: ServerResponse, request: IncomingMessage) => void;

/** Answers 401 without the credential, as providers do. */
export const demanding: TlsAnswer = (seen, response) => {
  const isGood = seen.headers.authorization === `Bearer ${providerToken}`;
  response.writeHead(isGood ? 200 : 401, { "content-type": "application/json" });
  response.end(JSON.stringify({ method: seen.method, host: seen.host, url: seen.url, body: seen.body }));
};

interface TlsProviderOptions {
  readonly names?: readonly string[];
  readonly answer?: TlsAnswer;
  /** Default: any port of 127.0.0.1. */
  readonly listen?: { readonly host: string; readonly port: number };
}

export async function startTlsProvider(options: TlsProviderOptions = {}): Promise<TlsProvider> {
  const { names = [apiHost, otherHost, elsewhere], answer = demanding, listen } = options;
  const folder = mkdtempSync(join(tmpdir(), "latchkey-provider-"));
  const authority = createAuthority(folder, "provider");
  const issued = authority.issue("origin", { names: names.map((name) => `DNS:${name}`).join(",") });
  const seen: SeenRequest[] = [];
  const server = http2.createSecureServer({
    allowHTTP1: true,
    cert: readFileSync(issued.cert),
    key: readFileSync(issued.key),
  });
  server.on("request", async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const { method = "", url = "", headers, httpVersion } = request;
    const host = headers[":authority"] ?? headers.host ?? "";
    const bytes = Buffer.concat(chunks);
    const one = { method, host: String(host), url, httpVersion, headers, body: bytes.toString(), bytes };
    seen.push(one);
    answer(one, response as unknown as ServerResponse, request as unknown as IncomingMessage);
  });
  const sockets = new Set<Socket>();
  server.on("connection", (socket: Socket) => {
    sockets.add(socket);
    socket.on("error", () => {}).once("close", () => sockets.delete(socket));
  });
  const { host, port } = listen ?? { host: "127.0.0.1", port: 0 };
  server.listen(port, host);
  await once(server, "listening");
  const bound = server.address() as AddressInfo;
  return {
    port: bound.port,
    address: bound.address,
    seen,
    server,
    ca: authority.cert,
    close() {
      server.close();
      for (const socket of sockets) socket.destroy();
    },
  };
}

export interface ForwardProxied extends TestSidecar {
  /** `http://127.0.0.1:port` of the forward proxy. */
  readonly proxy: string;
  /** The same with the key in it. */
  readonly proxyUrl: string;
  /** The certificates that programs must trust, PEM. */
  readonly ca: string;
}

interface ForwardProxiedOptions extends HarnessOptions {
  readonly folder: string;
  /** Integrations by key, each with a connection `ada` unless others are named. */
  readonly integrations?: Readonly<Record<string, ForwardedIntegration>>;
  /** The provider's names; default: those above. */
  readonly names?: readonly string[];
}

interface ForwardedIntegration {
  readonly baseUrl: string;
  readonly connections?: readonly string[];
  readonly header?: string;
}

/** A sidecar with a forward proxy before a provider; its caller must stop it. */
export async function startForwardProxied(
  provider: Pick<TlsProvider, "port" | "address" | "ca">,
  options: ForwardProxiedOptions,
): Promise<ForwardProxied> {
  const { integrations = { here: { baseUrl: `https://${apiHost}:${provider.port}` } }, env = {}, ...rest } = options;
  const { names = [apiHost, otherHost, elsewhere] } = options;
  const hosts = names.map((host) => `${host}:${provider.port}`);
  const running = await startUnmanaged({
    ...rest,
    env: {
      LATCHKEY_FORWARD_PROXY_LISTEN: "127.0.0.1:0",
      LATCHKEY_ALLOW_PRIVATE: hosts.join(","),
      LATCHKEY_PROVIDER_CA: "/provider-ca",
      ...env,
    },
    files: { "/provider-ca": readFileSync(provider.ca, "utf8"), ...options.files },
    resolve: options.resolve ?? (async () => [{ address: provider.address, family: 4 }]),
  });
  await furnishForwarded(running, integrations);
  const { certificates } = await running.client(AuthorityService).getAuthority({});
  const proxy = running.sidecar.addresses.forwardProxy ?? "";
  return {
    ...running,
    proxy,
    proxyUrl: proxy.replace("http://", `http://latchkey:${secretKey}@`),
    ca: certificates.map(({ pem }) => pem).join(""),
  };
}

/** Creates integrations with their connections. */
export async function furnishForwarded(
  running: TestSidecar,
  integrations: Readonly<Record<string, ForwardedIntegration>>,
): Promise<void> {
  for (const [key, { baseUrl, connections = ["ada"], header }] of Object.entries(integrations)) {
    await running.client(ProviderService).createProvider({
      provider: {
        name: key,
        auth: { case: "apiKey", value: header === undefined ? {} : { header } },
        proxy: { baseUrl },
      },
    });
    await made(running, "/integrations", { unique_key: key, provider: key });
    for (const id of connections) await connectForwarded(running, key, id);
  }
}

export async function connectForwarded(running: TestSidecar, key: string, id: string): Promise<void> {
  await made(running, "/connections", {
    provider_config_key: key,
    connection_id: id,
    credentials: { type: "API_KEY", apiKey: id === "ada" ? providerToken : `the-provider-token-of-${id}` },
  });
}

async function made({ rest }: TestSidecar, path: string, body: object): Promise<void> {
  const { status, body: said } = await rest("POST", path, { body });
  if (status >= 300) throw new Error(`${path}: ${JSON.stringify(said)}`);
}

export const basic = (user: string, password = ""): string =>
  `Basic ${Buffer.from(`${user}:${password}`).toString("base64")}`;

interface ConnectOptions {
  /** The value of `Proxy-Authorization`; default: the key of the environment. */
  readonly authorization?: string | undefined;
  /** Bytes that follow the head at once. */
  readonly early?: string | Buffer;
  readonly lines?: string;
}

export interface ConnectAnswer {
  readonly status: number;
  /** The head and what came with it. */
  readonly text: string;
  readonly socket: Socket;
}

/** Sends `CONNECT`, and resolves with the answer: of a refusal, the whole of it. */
export async function sendConnect(
  proxy: string,
  authority: string,
  options: ConnectOptions = {},
): Promise<ConnectAnswer> {
  const { authorization = `Bearer ${secretKey}`, early = "", lines = "" } = options;
  const { hostname, port } = new URL(proxy);
  const socket = connect(Number(port), hostname);
  socket.on("error", () => {});
  await once(socket, "connect");
  const key = authorization === "" ? "" : `Proxy-Authorization: ${authorization}\r\n`;
  const head = `CONNECT ${authority} HTTP/1.1\r\nHost: ${authority}\r\n${key}${lines}\r\n`;
  socket.write(Buffer.concat([Buffer.from(head, "latin1"), Buffer.from(early)]));
  let text = "";
  return new Promise((resolve) => {
    const done = () => {
      socket.off("data", onData).off("close", done);
      resolve({ status: Number(text.split(" ")[1] ?? 0), text, socket });
    };
    const onData = (bytes: Buffer) => {
      text += bytes.toString("latin1");
      if (text.startsWith("HTTP/1.1 200") && text.includes("\r\n\r\n")) done();
    };
    socket.on("data", onData).on("close", done);
  });
}

interface SecureOptions extends ConnectOptions {
  readonly ca: string;
  readonly tls?: ConnectionOptions;
}

/** Opens a tunnel and speaks TLS in it. Rejects if the handshake fails. */
export async function openSecure(proxy: string, authority: string, options: SecureOptions): Promise<TLSSocket> {
  const { socket, status, text } = await sendConnect(proxy, authority, options);
  if (status !== 200) throw new Error(`no tunnel: ${text}`);
  const host = authority.replace(/:\d+$/, "");
  const secure = tls.connect({ socket, ca: options.ca, servername: host, ALPNProtocols: ["http/1.1"], ...options.tls });
  await new Promise<void>((resolve, reject) => {
    secure.once("secureConnect", resolve).once("error", reject);
    secure.once("close", () => reject(new Error("the connection was closed")));
  });
  secure.on("error", () => {});
  return secure;
}

/** Sends bytes, and resolves with everything until the answer is complete by its length, or the connection closes. */
export function askRaw(socket: Socket, bytes: string, isEnough: (text: string) => boolean = hasBody): Promise<string> {
  let text = "";
  return new Promise((resolve) => {
    const done = () => {
      socket.off("data", onData).off("close", done);
      resolve(text);
    };
    const onData = (chunk: Buffer) => {
      text += chunk.toString("latin1");
      if (isEnough(text)) done();
    };
    socket.on("data", onData).on("close", done);
    socket.write(bytes, "latin1");
  });
}

function hasBody(text: string): boolean {
  const [head = "", ...rest] = text.split("\r\n\r\n");
  const body = rest.join("\r\n\r\n");
  const length = /\r\ncontent-length: (\d+)/i.exec(head)?.[1];
  if (length !== undefined) return body.length >= Number(length);
  return /\r\ntransfer-encoding: chunked/i.test(head) && /(?:^|\r\n)0\r\n/.test(body);
}
