import { once } from "node:events";
import http from "node:http";
import type { AddressInfo } from "node:net";
import { ConnectError } from "@connectrpc/connect";
import { onTestFinished } from "vitest";
import { WebSocket, WebSocketServer } from "ws";
import { TrafficService } from "../../../src/gen/latchkey/v1/traffic_pb.ts";
import { type ProxiedSidecar, startProxied } from "../../support/peers/provider.ts";
import type { HarnessOptions } from "../../support/sidecar/harness.ts";
import { openSession, streamed } from "../../support/wire/http2-call.ts";

/** A slow machine refuses no request. */
export const unhurried = { proxy: { overload: { delay: "0s" } } };

/** An address for each connection. */
export const aliases = ["ada", "bob"].map((name) => ({
  ...{ name, environment: "dev", integration: "here", connection: name },
  listen: "127.0.0.1:0",
}));

/** Sends requests until the budget of their session is used up. */
export async function useUp(ask: () => Promise<readonly [status: number, code: string | null]>): Promise<void> {
  for (let code: string | null = null; code !== "not_in_session"; ) [, code] = await ask();
}

/** A sidecar with two connections to a provider that speaks HTTP, event streams and WebSockets. */
export interface SessionSidecar extends ProxiedSidecar {
  /** Number of requests that have reached the provider. */
  readonly sent: () => number;
}

export async function startForSessions(options: HarnessOptions = {}): Promise<SessionSidecar> {
  let sent = 0;
  const server = http.createServer((request, response) => {
    sent += 1;
    if (request.url?.endsWith("/events") === true) {
      response.writeHead(200, { "content-type": "text/event-stream" }).write("data: 1\n\n");
    } else response.end("{}");
  });
  new WebSocketServer({ server });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  const running = await startProxied(port, {
    ...options,
    files: { "/config": JSON.stringify({ aliases, ...unhurried }), ...options.files },
    env: { LATCHKEY_CONFIG: "/config", ...options.env },
  });
  const other = { provider_config_key: "here", connection_id: "bob", credentials: { type: "API_KEY", apiKey: "bobs" } };
  const { status } = await running.rest("POST", "/connections", { body: other });
  if (status !== 201) throw new Error("the second connection was not made");
  return { ...running, sent: () => sent };
}

/** A request with a token for a connection over one face: its status, and our name of the error. */
export type Face = (
  running: ProxiedSidecar,
  token: string,
  request?: { readonly connection?: string; readonly method?: string; readonly path?: string },
) => Promise<readonly [status: number, code: string | null]>;

const named = (token: string, connection: string) => ({
  authorization: `Bearer ${token}`,
  "provider-config-key": "here",
  "connection-id": connection,
});

const answered = (answer: Response) => [answer.status, answer.headers.get("latchkey-error")] as const;

/** Sends a request by `node:http`, which leaves the target as it is. */
async function asked(address: string, options: http.RequestOptions): Promise<readonly [number, string | null]> {
  const request = http.request(address, options).end();
  const [response] = (await once(request, "response")) as [http.IncomingMessage];
  response.resume();
  const code = response.headers["latchkey-error"];
  return [response.statusCode ?? 0, typeof code === "string" ? code : null];
}

/** Every way by which a request to a provider comes. */
export const faces: Readonly<Record<string, Face>> = {
  "/proxy": async ({ data }, token, { connection = "ada", method = "GET", path = "/x" } = {}) =>
    answered(await fetch(`${data}/proxy${path}`, { method, headers: named(token, connection) })),
  "absolute form": ({ data, config }, token, { connection = "ada", method = "GET", path = "/x" } = {}) => {
    const [allowed = ""] = config.allowPrivate;
    return asked(data, {
      method,
      path: `http://${allowed.replace("http://", "")}${path}`,
      headers: named(token, connection),
    });
  },
  alias: async ({ sidecar }, token, { connection = "ada", method = "GET", path = "/x" } = {}) => {
    const headers = { authorization: `Bearer ${token}` };
    return answered(await fetch(`${sidecar.aliases[connection]}${path}`, { method, headers }));
  },
  "Latchkey-Key": async ({ data }, token, { connection = "ada", method = "GET", path = "/x" } = {}) => {
    const headers = { ...named(token, connection), authorization: "Bearer of-the-caller", "latchkey-key": token };
    return answered(await fetch(`${data}/proxy${path}`, { method, headers }));
  },
  "HTTP/2": async ({ data }, token, { connection = "ada", method = "GET", path = "/x" } = {}) => {
    const headers = { ...named(token, connection), ":method": method };
    const found = await streamed(await openSession(data), `/proxy${path}`, { headers });
    return [found.status, (found.headers["latchkey-error"] as string | undefined) ?? null];
  },
  WebSocket: async ({ data }, token, { connection = "ada", path = "/x" } = {}) => {
    const socket = new WebSocket(`${data.replace("http", "ws")}/proxy${path}`, { headers: named(token, connection) });
    onTestFinished(() => socket.terminate());
    return new Promise((resolve, reject) => {
      socket.on("open", () => resolve([200, null]));
      socket.on("unexpected-response", (_, response) => {
        const code = response.headers["latchkey-error"];
        resolve([response.statusCode ?? 0, typeof code === "string" ? code : null]);
      });
      socket.on("error", reject);
    });
  },
  SendRequest: async ({ client }, token, { connection = "ada", method = "GET", path = "/x" } = {}) => {
    try {
      const request = { connection: { integration: "here", id: connection }, method, path };
      const { status, problem } = await client(TrafficService, token).sendRequest(request);
      return problem === undefined ? [status, null] : [403, problem.code];
    } catch (error) {
      const code = ConnectError.from(error).metadata.get("latchkey-error");
      return [code === "unknown_key" ? 401 : 403, code];
    }
  },
};
