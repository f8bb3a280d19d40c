import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

/** A provider that answers 429 above a number of requests in any period, and counts. */
export interface LimitedProvider {
  readonly port: number;
  readonly counts: { passed: number; refused: number };
  close(): Promise<void>;
}

export async function startLimitedProvider({ requests = 100, periodMs = 1_000 } = {}): Promise<LimitedProvider> {
  const counts = { passed: 0, refused: 0 };
  let fullAt = 0;
  const everyMs = periodMs / requests;
  const server = createServer((_, response) => {
    // A token bucket as large as the limit of one period.
    const now = performance.now();
    const isOver = Math.max(fullAt, now) + everyMs > now + periodMs;
    if (isOver) counts.refused += 1;
    else {
      fullAt = Math.max(fullAt, now) + everyMs;
      counts.passed += 1;
    }
    response.writeHead(isOver ? 429 : 200, {
      "content-type": "application/json",
      ...(isOver && { "retry-after": "1" }),
    });
    response.end("{}");
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    port: (server.address() as AddressInfo).port,
    counts,
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}
