import type { Server, Socket } from "node:net";
import type { ConnectionLimit } from "../../base/http/connection-limit.ts";
import { drainListener, firstRequestMs } from "../../base/http/drain-listener.ts";
import type { ListenerTls } from "../../base/http/listener.ts";
import { createTwoProtocols } from "../../base/http/two-protocols.ts";
import type { Metrics } from "../../base/metrics/metrics.ts";
import { sharedSocketOf } from "../../base/node/shared-socket.ts";
import { createFastPath, type FastPathOptions } from "../fast-path/fast-path.ts";
import { createHttp1Server, type Http1ServerOptions } from "./http1-server.ts";
import { createDoorStreams } from "./streams.ts";

/** The port of a listener: HTTP/1.1 on the fast or the general path, and HTTP/2. */
export interface DoorProtocols {
  readonly server: Server;
  /** Serves the decrypted side of a tunnel. */
  serve(secure: Socket, isHttp2: boolean): void;
  /** Closes each connection with its next response. */
  leave(): void;
  /** Accepts no more connections; resolves when the last one has ended. `endUnserved` ends tunnels without a request. */
  drain(endUnserved: () => void): Promise<void>;
  destroy(): void;
}

interface DoorProtocolsOptions extends Omit<Http1ServerOptions, "hasFastPath"> {
  readonly tls: ListenerTls | undefined;
  /** Undefined: no limit. */
  readonly connections: ConnectionLimit | undefined;
  readonly maxHeadLines: number;
  /** Limits how long an HTTP/2 client may read nothing of a complete response. */
  readonly stallMs: number;
  /** Undefined: all requests use the general path. */
  readonly fastPath: Omit<FastPathOptions, "handOver" | "refuse"> | undefined;
  /** On the fast path, client connections share one read buffer. */
  readonly sharesReads: boolean;
  readonly metrics: Pick<Metrics, "proxyHandedOver">;
}

/** Checks the names of options in spreads, which types do not check by themselves. */
type PortOptions = Partial<Parameters<typeof createTwoProtocols>[0]>;

export function createDoorProtocols(options: DoorProtocolsOptions): DoorProtocols {
  const { tls, connections, maxHeadBytes, maxHeadLines, stallMs, sharesReads, metrics } = options;
  const { answers, refusals, onRequest } = options;
  const http1 = createHttp1Server({ ...options, hasFastPath: options.fastPath !== undefined });
  const streams = createDoorStreams({
    maxHeadBytes,
    maxHeadLines,
    stallMs,
    onRequest,
    fail: answers.fault,
    refuse: (fault, peer) => refusals.peer("a client violated HTTP/2", fault, peer),
  });
  const fastPath =
    options.fastPath &&
    createFastPath({
      ...options.fastPath,
      refuse: http1.refuse,
      handOver(socket, isHttp1) {
        metrics.proxyHandedOver.inc();
        if (isHttp1) http1.serve(socket);
        else both.tell(socket);
      },
    });
  const both = createTwoProtocols({
    tls,
    // Same as Node's own HTTP/1.1 server.
    socketOptions: { noDelay: true, allowHalfOpen: tls === undefined },
    limit: connections,
    ...(fastPath && ({ serveFirst: fastPath.open } satisfies PortOptions)),
    ...(fastPath && sharesReads && ({ replaceSocket: sharedSocketOf } satisfies PortOptions)),
    serveHttp1: http1.serve,
    serveHttp2: streams.serve,
    refuse(fault, { remoteAddress }) {
      refusals.peer("a client did not complete the TLS handshake", fault, remoteAddress);
    },
  });

  function destroy(): void {
    streams.destroy();
    fastPath?.destroy();
    http1.destroy();
    both.destroy();
  }

  return {
    server: both.server,
    serve(secure, isHttp2) {
      if (isHttp2) streams.serve(secure);
      else if (fastPath !== undefined) fastPath.open(secure);
      else http1.serve(secure);
    },
    leave() {
      fastPath?.leave();
      streams.leave();
    },
    async drain(endUnserved) {
      fastPath?.leave();
      streams.drain();
      // A tunnel that was just opened has as long for its handshake as other new connections.
      const late = setTimeout(endUnserved, firstRequestMs);
      await drainListener(both.server, (since) => {
        both.closeIdle(since);
        fastPath?.closeIdle(since);
        http1.closeIdle(since);
      });
      clearTimeout(late);
      destroy();
    },
    destroy,
  };
}
