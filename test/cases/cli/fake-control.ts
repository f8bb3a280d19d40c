import { createServer, type Http2Server, type ServerHttp2Session } from "node:http2";
import type { AddressInfo } from "node:net";
import type { ConnectRouter } from "@connectrpc/connect";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import { onTestFinished } from "vitest";

/** A control plane over real sockets that sends the test's answers, until the test ends. */
export async function fakeControl(
  routes: (router: ConnectRouter) => void,
  where: { readonly path: string } | { readonly port: number } = { port: 0 },
): Promise<FakeControl> {
  const sessions = new Set<ServerHttp2Session>();
  const server: Http2Server = createServer(connectNodeAdapter({ routes }));
  server.on("session", (session) => {
    sessions.add(session);
    session.on("close", () => sessions.delete(session));
  });
  const cut = () => {
    for (const session of sessions) session.destroy();
  };
  await new Promise<void>((resolve) => server.listen({ host: "127.0.0.1", ...where }, resolve));
  onTestFinished(() => {
    cut();
    server.close();
  });
  const bound = server.address() as AddressInfo | string;
  return { address: typeof bound === "string" ? `unix:${bound}` : `http://127.0.0.1:${bound.port}`, cut };
}

export interface FakeControl {
  readonly address: string;
  /** Breaks every connection off without a word. */
  readonly cut: () => void;
}
