import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import type { TLSSocket } from "node:tls";
import { Fault } from "../base/fault.ts";
import { endSocket } from "../base/http/end-socket.ts";
import { mistakeInHttp1 } from "../base/http/framing.ts";
import type { RareWarning } from "../base/rare-warning.ts";
import type { World } from "../base/world.ts";
import { faultOfStore } from "../broker/stored/store-fault.ts";
import type { ForwardTarget } from "../data-plane/proxy/forwarding/forward-target.ts";
import type { ConnectCall, ForwardTraffic } from "../data-plane/server/forward-traffic.ts";
import { requireSingle } from "../data-plane/server/heads.ts";
import type { ConnectionRef } from "../gen/latchkey/v1/connection_pb.ts";
import type { Upstream } from "../relay/upstream.ts";
import { beginTunnel, connectRefusal } from "./connect-answers.ts";
import { type ConnectTarget, connectTarget } from "./connect-target.ts";
import { createForwardTargets } from "./forward-targets.ts";
import { createHostAdmission, type HostAdmissionOptions } from "./host-admission.ts";
import type { HostCertificates } from "./leafs.ts";
import { createPassing } from "./passing.ts";
import { createTlsEnd, type HandshakeFailure } from "./tls-end.ts";

/** What the forward proxies of all listeners share. */
export interface ForwardProxyParts extends HostAdmissionOptions {
  readonly certificates: HostCertificates;
  readonly upstream: Pick<Upstream, "admit" | "open">;
  readonly warn: RareWarning;
  readonly world: World;
}

interface ForwardProxyOptions extends ForwardProxyParts {
  /** The connection for every tunnel of an alias listener. */
  readonly alias?: ConnectionRef | undefined;
}

export function createForwardProxy(options: ForwardProxyOptions): ForwardTraffic {
  const { certificates, upstream, alias, warn, world } = options;
  const { metrics } = world;
  const targets = createForwardTargets(alias);
  const admission = createHostAdmission(options);
  const passOn = createPassing({ access: options.access, upstream, metrics });
  /** The targets of decrypted sockets. */
  const tunnels = new WeakMap<Socket, ForwardTarget>();
  /** Sockets of callers that wait for their tunnel, or whose tunnel is passed on without looking inside. */
  const unserved = new Set<Socket>();
  /** Sockets in a handshake, by their peer: Node does not say which socket a TLS socket has taken over. */
  const inHandshake = new Map<string, Socket>();
  /** The listener's own: the same with each call. */
  let serve: ConnectCall["serve"] | undefined;
  const tls = createTlsEnd({ certificates, onSecure, onFailure });

  function onSecure(secure: TLSSocket, target: ForwardTarget): void {
    inHandshake.delete(peerOf(secure));
    tunnels.set(secure, target);
    serve?.(secure, secure.alpnProtocol === "h2");
  }

  function onFailure(reason: HandshakeFailure, { remoteAddress = "unix" }: TLSSocket): void {
    metrics.forwardHandshakes.inc({ reason });
    warn("a client of the forward proxy did not complete the TLS handshake", {
      door: "forwardProxy",
      peer: remoteAddress,
      reason: reason === "name" ? "it asked for another host than that of its tunnel" : "the TLS handshake failed",
    });
  }

  async function open(call: ConnectCall): Promise<void> {
    const { request, isDraining } = call;
    if (isDraining) throw new Fault("not_ready", "Latchkey is stopping: connect again to reach another replica");
    requireNoBody(request);
    requireSingle(request.rawHeaders);
    const place = connectTarget(request.url ?? "");
    const target = targets.ofTunnel(request, place);
    const { kind, caller } = await admission.admit(target, place);
    if (kind === "ended") await endTls(call, target, place);
    else await passOn(call, place, caller);
  }

  async function endTls(call: ConnectCall, target: ForwardTarget, { host }: ConnectTarget): Promise<void> {
    const { socket } = call;
    const prepared = await tls.prepare(target, host);
    if (socket.destroyed) return;
    unserved.delete(socket);
    inHandshake.set(peerOf(socket), socket);
    beginTunnel(call, "opened", metrics);
    prepared.take(socket);
  }

  return {
    tunnelOf: ({ socket }) => tunnels.get(socket),
    targetOf: targets.ofUrl,
    connect(call) {
      const { socket } = call;
      serve = call.serve;
      // The TLS side, or the join, takes the socket later; a caller that leaves before must not end the process.
      socket.on("error", () => socket.destroy());
      unserved.add(socket);
      const peer = peerOf(socket);
      socket.once("close", () => unserved.delete(socket) || inHandshake.delete(peer));
      const opening = tunnels.has(socket) ? Promise.reject(noNesting()) : open(call);
      opening.catch((error: unknown) => {
        const fault = faultOfStore(error);
        metrics.forwardTunnels.inc({ outcome: fault.code });
        if (fault.code === "internal") world.log.error("a tunnel failed unexpectedly", { err: fault.cause });
        if (!socket.destroyed) endSocket(socket, connectRefusal(fault));
      });
    },
    drain() {
      for (const socket of unserved) socket.destroy();
      for (const socket of inHandshake.values()) socket.destroy();
    },
  };
}

const noNesting = () => new Fault("method_not_allowed", "a tunnel inside of a tunnel is not supported");

/** RFC 9110, 9.3.6: a request for a tunnel has no content. Another proxy could take it for the start of the tunnel. */
function requireNoBody(request: IncomingMessage): void {
  const { "transfer-encoding": coding, "content-length": length = "0" } = request.headers;
  const mistake = mistakeInHttp1(request);
  if (mistake !== undefined) throw new Fault("malformed_request", mistake);
  if (coding !== undefined || length !== "0") throw new Fault("malformed_request", "CONNECT must have no body");
}

/** Peers of a Unix socket cannot be told apart: one of them stands for all. */
function peerOf(socket: Socket): string {
  const { remoteAddress, remotePort } = socket;
  return `${remoteAddress ?? "unix"} ${remotePort ?? 0}`;
}
