import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { createServer as createTlsServer, type TlsOptions } from "node:tls";
import { onTestFinished } from "vitest";

/** A proxy for CONNECT that does what a test wants, on a raw socket. */
export interface ConnectProxy {
  readonly port: number;
  /** The head of each request, as it came. */
  readonly heads: readonly string[];
  /** Connections of clients that are open. */
  open(): number;
  /** What it does with a request; default: `opens`. */
  answer: ConnectAnswering;
  close(): void;
}

/** `open` joins the client with the origin after the answer. */
export type ConnectAnswering = (client: Socket, open: () => Promise<Socket>) => void;

export const established = "HTTP/1.1 200 Connection established\r\n\r\n";

export const opens: ConnectAnswering = async (client, open) => {
  const origin = await open().catch(() => undefined);
  if (origin === undefined) client.end("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n");
  else {
    client.write(established);
    client.pipe(origin).pipe(client);
  }
};

/** Answers with a text. */
export const says =
  (text: string): ConnectAnswering =>
  (client) =>
    void client.end(text);

/** `places` are addresses of names that only the proxy knows. */
export async function startConnectProxy(
  places: Readonly<Record<string, string>> = {},
  tls?: TlsOptions,
): Promise<ConnectProxy> {
  const heads: string[] = [];
  const sockets = new Set<Socket>();
  let clients = 0;
  const onSocket = (client: Socket) => {
    sockets.add(client);
    clients += 1;
    client.on("close", () => {
      clients -= 1;
    });
    let head = Buffer.alloc(0);
    const onData = (bytes: Buffer) => {
      head = Buffer.concat([head, bytes]);
      const end = head.indexOf("\r\n\r\n");
      if (end === -1) return;
      client.off("data", onData);
      const text = head.toString("latin1", 0, end + 4);
      heads.push(text);
      const [, host = "", port = ""] = /^CONNECT (.+):(\d+) HTTP\/1\.1\r\n/.exec(text) ?? [];
      proxy.answer(client, async () => {
        const origin = connect({ host: places[host] ?? host.replace(/^\[|\]$/g, ""), port: Number(port) });
        sockets.add(origin);
        origin.on("error", () => client.destroy());
        client.on("close", () => origin.destroy());
        origin.on("close", () => client.destroy());
        await once(origin, "connect");
        return origin;
      });
    };
    client.on("data", onData).on("error", () => {});
  };
  const server = tls === undefined ? createServer(onSocket) : createTlsServer(tls, onSocket);
  server.on("tlsClientError", () => {});
  await once(server.listen(0, "127.0.0.1"), "listening");
  const close = () => {
    server.close();
    for (const socket of sockets) socket.destroy();
  };
  onTestFinished(close);
  const proxy: ConnectProxy = {
    port: (server.address() as AddressInfo).port,
    heads,
    open: () => clients,
    answer: opens,
    close,
  };
  return proxy;
}
