import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { createServer as createTlsServer, type TlsOptions } from "node:tls";
import { onTestFinished } from "vitest";
import { ProviderService } from "../../../src/gen/latchkey/v1/provider_pb.ts";
import { type HarnessOptions, secretKey, startTestSidecar, type TestSidecar } from "../sidecar/harness.ts";

/** A provider on a raw socket: it records every byte, and sends any bytes that a test wants. */
export interface RecordingProvider {
  readonly port: number;
  /** Each connection, with everything received over it. */
  readonly connections: readonly RecordedConnection[];
  /** Everything received, over all connections. */
  received(): string;
}

export interface RecordedConnection {
  readonly socket: Socket;
  /** latin1. */
  readonly received: () => string;
  /** Requests that a strict reader finds in it. */
  readonly requests: () => readonly RecordedRequest[];
  /** The bytes after the last complete request. */
  readonly rest: () => string;
}

export interface RecordedRequest {
  readonly line: string;
  /** Name (lower case), value, in order. */
  readonly fields: readonly (readonly [string, string])[];
  readonly body: string;
}

/** Called for each complete request; its writes to the socket are the response. */
export type Answering = (request: RecordedRequest, socket: Socket, count: number) => void;

export const ok: Answering = (request, socket) => {
  const body = JSON.stringify({ line: request.line, body: request.body });
  socket.write(
    `HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
  );
};

export async function startProvider(answer: Answering = ok, tls?: TlsOptions): Promise<RecordingProvider> {
  const connections: RecordedConnection[] = [];
  const onSocket = (socket: Socket) => {
    let text = "";
    let answered = 0;
    let all: RecordedRequest[] = [];
    let end = 0;
    socket.setEncoding("latin1");
    socket.on("error", () => {});
    socket.on("data", (chunk: string) => {
      text += chunk;
      ({ all, end } = requestsIn(text));
      for (; answered < all.length; answered += 1) {
        const request = all[answered];
        if (request !== undefined) answer(request, socket, answered);
      }
    });
    connections.push({ socket, received: () => text, requests: () => all, rest: () => text.slice(end) });
  };
  const server = tls === undefined ? createServer(onSocket) : createTlsServer(tls, onSocket);
  server.on("tlsClientError", () => {});
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    server.close();
    for (const { socket } of connections) socket.destroy();
  });
  return {
    port: (server.address() as AddressInfo).port,
    connections,
    received: () => connections.map((one) => one.received()).join(""),
  };
}

function requestsIn(text: string): { all: RecordedRequest[]; end: number } {
  const all: RecordedRequest[] = [];
  let at = 0;
  for (;;) {
    const end = text.indexOf("\r\n\r\n", at);
    if (end === -1) return { all, end: at };
    const [line = "", ...lines] = text.slice(at, end).split("\r\n");
    const fields = lines.map((one): [string, string] => {
      const colon = one.indexOf(":");
      return [one.slice(0, colon).toLowerCase(), one.slice(colon + 1).trim()];
    });
    const field = (name: string) => fields.find(([one]) => one === name)?.[1];
    const body =
      field("transfer-encoding") === "chunked"
        ? chunkedAt(text, end + 4)
        : lengthAt(text, end + 4, field("content-length"));
    if (body === undefined) return { all, end: at };
    all.push({ line, fields, body: body.content });
    at = body.end;
  }
}

function lengthAt(text: string, at: number, length = "0"): { content: string; end: number } | undefined {
  const end = at + Number(length);
  return end > text.length ? undefined : { content: text.slice(at, end), end };
}

function chunkedAt(text: string, from: number): { content: string; end: number } | undefined {
  let content = "";
  for (let at = from; ; ) {
    const lineEnd = text.indexOf("\r\n", at);
    if (lineEnd === -1) return undefined;
    const size = Number.parseInt(text.slice(at, lineEnd), 16);
    if (size === 0) {
      const end = text.indexOf("\r\n\r\n", lineEnd - 0);
      return end === -1 ? undefined : { content, end: end + 4 };
    }
    content += text.slice(lineEnd + 2, lineEnd + 2 + size);
    at = lineEnd + 2 + size + 2;
    if (at > text.length) return undefined;
  }
}

export interface ProxiedSidecar extends TestSidecar {
  /** The three headers of the proxy, for the connection `ada` of the integration `here`. */
  readonly proxyHeaders: Readonly<Record<string, string>>;
  /** The same as raw lines. */
  readonly proxyLines: string;
  /** Writes raw bytes to the data listener, and returns the response up to its end or a silence. */
  raw(bytes: string | Buffer, options?: { readonly silentMs?: number }): Promise<string>;
  /** The same, and whether the listener closed the connection. */
  probe(bytes: string | Buffer, options?: { readonly silentMs?: number }): Promise<Probed>;
}

export interface Probed {
  /** latin1. */
  readonly text: string;
  readonly isClosed: boolean;
}

interface ProxiedOptions extends HarnessOptions {
  /** Sent unchanged to `ProviderService.CreateProvider`. */
  // biome-ignore lint/suspicious/noExplicitAny: any of the many kinds of credentials.
  readonly provider?: Record<string, any>;
  readonly credentials?: Readonly<Record<string, unknown>>;
  readonly integration?: Readonly<Record<string, unknown>>;
  readonly isTls?: boolean;
}

export const apiKey = "the-key-of-ada";

/** A sidecar with a connection to a provider on this machine: the connection `ada` of the integration `here`. */
export async function startProxied(
  port: number,
  { provider = {}, credentials, integration = {}, isTls = false, env = {}, ...options }: ProxiedOptions = {},
): Promise<ProxiedSidecar> {
  const allowed = `${isTls ? "" : "http://"}127.0.0.1:${port}`;
  const running = await startTestSidecar({ ...options, env: { LATCHKEY_ALLOW_PRIVATE: allowed, ...env } });
  await running.client(ProviderService).createProvider({
    provider: {
      name: "here",
      auth: { case: "apiKey", value: { header: "x-api-key" } },
      proxy: { baseUrl: `https://127.0.0.1:${port}` },
      ...provider,
    },
  });
  const made = await running.rest("POST", "/integrations", {
    body: { unique_key: "here", provider: "here", ...integration },
  });
  if (made.status !== 200) throw new Error(`the integration was not made: ${JSON.stringify(made.body)}`);
  const imported = await running.rest("POST", "/connections", {
    body: {
      provider_config_key: "here",
      connection_id: "ada",
      credentials: credentials ?? { type: "API_KEY", apiKey },
    },
  });
  if (imported.status !== 201) throw new Error(`the connection was not made: ${JSON.stringify(imported.body)}`);
  const proxyHeaders = {
    authorization: `Bearer ${secretKey}`,
    "provider-config-key": "here",
    "connection-id": "ada",
  };
  return {
    ...running,
    proxyHeaders,
    proxyLines: Object.entries(proxyHeaders)
      .map(([name, value]) => `${name}: ${value}\r\n`)
      .join(""),
    raw: async (bytes, { silentMs = 300 } = {}) => (await exchange(running.data, bytes, silentMs)).text,
    probe: (bytes, { silentMs = 300 } = {}) => exchange(running.data, bytes, silentMs),
  };
}

function exchange(address: string, bytes: string | Buffer, silentMs: number): Promise<Probed> {
  return new Promise((resolve) => {
    const { hostname, port } = new URL(address);
    const socket = connect(Number(port), hostname);
    let text = "";
    const done = (isClosed = false) => {
      socket.destroy();
      resolve({ text, isClosed });
    };
    let silence = setTimeout(done, silentMs + 2_000);
    socket.setEncoding("latin1");
    socket.on("data", (chunk: string) => {
      text += chunk;
      clearTimeout(silence);
      silence = setTimeout(done, silentMs);
    });
    socket.on("error", () => {});
    socket.on("close", () => {
      clearTimeout(silence);
      done(true);
    });
    // A latin1 text is sent byte for byte.
    if (typeof bytes === "string") socket.write(bytes, "latin1");
    else socket.write(bytes);
  });
}
