import { once } from "node:events";
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { onTestFinished } from "vitest";

/** A forward as the customer's application gets it. */
export interface Delivered {
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
  readonly at: number;
}

export interface Application {
  readonly url: string;
  readonly seen: readonly Delivered[];
  /** The largest number of requests at the same time. */
  readonly atOnce: () => number;
  /** Writes the next answers; default: 200. */
  answer: (request: Delivered, response: ServerResponse) => void;
  /** Resolves once it has got so many. */
  got(count: number, withinMs?: number): Promise<readonly Delivered[]>;
  close(): Promise<void>;
}

/** The customer's application on its own port, until the test ends. */
export async function startApplication({ port = 0 } = {}): Promise<Application> {
  const seen: Delivered[] = [];
  const sockets = new Set<Socket>();
  let underWay = 0;
  let most = 0;
  const application = {
    url: "",
    seen,
    atOnce: () => most,
    answer: (_: Delivered, response: ServerResponse) => void response.end("{}"),
    async got(count: number, withinMs = 30_000) {
      for (const until = Date.now() + withinMs; seen.length < count; await sleep(5)) {
        if (Date.now() > until) throw new Error(`${seen.length} of ${count} forwards came within ${withinMs} ms`);
      }
      return seen;
    },
    async close() {
      for (const socket of sockets) socket.destroy();
      if (!server.listening) return;
      server.close();
      await once(server, "close");
    },
  };
  async function take(request: IncomingMessage, response: ServerResponse): Promise<void> {
    underWay += 1;
    most = Math.max(most, underWay);
    response.on("close", () => {
      underWay -= 1;
    });
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part);
    const { url: path = "", headers } = request;
    const delivered = { path, headers, body: Buffer.concat(parts).toString(), at: Date.now() };
    seen.push(delivered);
    application.answer(delivered, response);
  }
  const server = createServer((request, response) => {
    // Some tests have a sender that disconnects in the middle.
    take(request, response).catch(() => response.destroy());
  });
  server.on("connection", (socket) => {
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket));
  });
  server.listen(port, "127.0.0.1");
  await once(server, "listening");
  application.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/hooks`;
  onTestFinished(() => application.close());
  return application;
}
