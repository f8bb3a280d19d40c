import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { Books } from "./books.ts";

/** The customer's application of a loss run: it records what it receives, and misbehaves at times. */
export interface LossApplication {
  readonly url: string;
  /** Answers 200 to everything from now on. */
  calmDown(): void;
  close(): void;
}

interface LossApplicationOptions {
  readonly books: Books;
  readonly random: () => number;
  /** The shares of deliveries that it answers with 500, by closing, and late. */
  readonly temper: Temper;
}

export interface Temper {
  readonly fails: number;
  readonly closes: number;
  readonly dawdles: number;
}

export const calm: Temper = { fails: 0, closes: 0, dawdles: 0 };
export const moody: Temper = { fails: 0.01, closes: 0.005, dawdles: 0.01 };
const longestMs = 300;

export async function startLossApplication(options: LossApplicationOptions): Promise<LossApplication> {
  const { books, random } = options;
  let { temper } = options;

  async function take(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part);
    const delivery = books.arrived({ webhookId: String(request.headers["webhook-id"]), body: Buffer.concat(parts) });
    const dice = random();
    const { fails, closes, dawdles } = temper;
    if (dice < fails) {
      response.writeHead(500).end();
    } else if (dice < fails + closes) {
      request.socket.destroy();
    } else {
      // Accepted: if the response gets lost from here on, a duplicate follows.
      if (delivery !== undefined) books.delivered(delivery);
      if (dice < fails + closes + dawdles) setTimeout(() => response.end("{}"), random() * longestMs);
      else response.end("{}");
    }
  }

  const server = createServer((request, response) => {
    // A sidecar that is killed in the middle of its request has delivered nothing.
    take(request, response).catch(() => response.destroy());
  });
  server.keepAliveTimeout = 60_000;
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/hooks`,
    calmDown() {
      temper = calm;
    },
    close() {
      server.close();
      server.closeAllConnections();
    },
  };
}
