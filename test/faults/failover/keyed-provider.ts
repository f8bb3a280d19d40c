import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

/** A provider that notes with which API keys it was called. */
export interface KeyedProvider {
  readonly host: string;
  /** The keys since the last call. */
  take(): readonly string[];
  close(): void;
}

export async function startKeyedProvider(): Promise<KeyedProvider> {
  let keys: string[] = [];
  const server = createServer((request, response) => {
    keys.push(String(request.headers["x-api-key"]));
    response.end("{}");
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    host: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    take() {
      const taken = keys;
      keys = [];
      return taken;
    },
    close() {
      server.close();
      server.closeAllConnections();
    },
  };
}
