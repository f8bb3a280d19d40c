import { isIP, type Socket } from "node:net";
import { pipeline } from "node:stream";
import type { Upstream } from "../relay/upstream.ts";
import { ClientHelloReader } from "./client-hello.ts";
import type { ConnectTarget } from "./connect-target.ts";

/** Opens a connection that nothing is added to. Rejects with `RelayFailure`, for a private address as well. */
export function openRawTunnel(
  upstream: Pick<Upstream, "admit" | "open">,
  { host, port }: ConnectTarget,
  signal: AbortSignal,
): Promise<Socket> {
  const admitted = upstream.admit({ scheme: "https", host, port });
  // The caller itself speaks TLS with the host.
  return upstream.open({ ...admitted, scheme: "http", key: `tunnel ${admitted.key}` }, signal);
}

interface RawTunnel {
  readonly socket: Socket;
  readonly there: Socket;
  readonly host: string;
  /** Called for a client that asks for another host than it connected to. */
  readonly onMismatch: () => void;
}

/** A client must send its first bytes within this time. */
const helloMs = 10_000;

/**
 * Joins two sockets once the client has asked the right host for TLS: otherwise a tunnel to an admitted host could be
 * used for any other that shares its addresses.
 */
export function joinTunnel({ socket, there, host, onMismatch }: RawTunnel): void {
  const reader = new ClientHelloReader();
  const end = () => {
    socket.destroy();
    there.destroy();
  };
  const late = setTimeout(end, helloMs);
  const stop = () => {
    clearTimeout(late);
    socket.off("data", onData);
  };
  socket.once("close", () => {
    clearTimeout(late);
    there.destroy();
  });
  there.once("close", () => socket.destroySoon()).on("error", end);

  function onData(chunk: Buffer): void {
    const hello = reader.add(chunk);
    if (hello.kind === "incomplete") return;
    stop();
    const wanted = isIP(host) === 0 ? host : undefined;
    if (hello.kind !== "hello" || hello.serverName !== wanted) {
      onMismatch();
      end();
      return;
    }
    there.write(reader.received);
    pipeline(socket, there, () => {});
    pipeline(there, socket, () => {});
  }
  socket.on("data", onData);
}
