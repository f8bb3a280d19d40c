import type { Socket } from "node:net";
import { Fault } from "../fault.ts";
import type { World } from "../world.ts";
import { endSocket } from "./end-socket.ts";
import { rawAnswer } from "./malformed.ts";

/** Limits the open connections of a listener. */
export interface ConnectionLimit {
  readonly max: number;
  /** Returns whether this connection may be served. If not, it was refused and must not be used. */
  admit(accepted: Socket): boolean;
  /** Counts an admitted connection until it closes. */
  count(socket: Socket): void;
  /** Counts a connection that was refused elsewhere. */
  refused(reason: "door" | "address"): void;
}

interface ConnectionLimitOptions {
  readonly door: string;
  readonly max: number;
  /** Limits each client address as well: strangers can open connections here. */
  readonly isShared: boolean;
  /** Closes without a response, which would need a handshake first. */
  readonly isTls: boolean;
  readonly world: World;
}

/**
 * Limits the refusals that wait for the client's first bytes, in order to respond in its protocol, as a share of the
 * listener's limit: they use file descriptors too. Further connections are closed at once.
 */
const refusalsShare = 1 / 10;
const fewestRefusals = 4;
const mostRefusals = 64;
const firstBytesMs = 1_000;
const warnEveryMs = 60_000;

export function createConnectionLimit(options: ConnectionLimitOptions): ConnectionLimit {
  const { door, max, isShared, isTls, world } = options;
  const { metrics, log } = world;
  const open = new Set<Socket>();
  const byAddress = new Map<string, number>();
  const maxRefusals = Math.min(mostRefusals, fewestRefusals + Math.floor(max * refusalsShare));
  let refusals = 0;
  let sinceWarning = 0;
  let warnedAtMs = Number.NEGATIVE_INFINITY;
  metrics.connectionsOpen.set({ door }, 0);

  /**
   * An address may have as many connections as stay free afterwards: one address takes half of a listener, the second
   * a quarter, and a new one always finds room.
   */
  function reasonAgainst(socket: Socket): "door" | "address" | undefined {
    if (open.size >= max) return "door";
    if (!isShared || socket.remoteAddress === undefined) return undefined;
    const own = byAddress.get(networkOf(socket.remoteAddress)) ?? 0;
    return own >= max - open.size ? "address" : undefined;
  }

  function refused(limit: "door" | "address"): void {
    metrics.connectionsRefused.inc({ door, limit });
    sinceWarning += 1;
    const nowMs = performance.now();
    if (nowMs - warnedAtMs < warnEveryMs) return;
    log.warn("connections refused", { door, limit, open: open.size, max, refused: sinceWarning });
    warnedAtMs = nowMs;
    sinceWarning = 0;
  }

  function refuse(socket: Socket): void {
    if (isTls || refusals >= maxRefusals) {
      socket.destroy();
      return;
    }
    refusals += 1;
    const late = setTimeout(() => socket.destroy(), firstBytesMs);
    socket.once("close", () => {
      refusals -= 1;
      clearTimeout(late);
    });
    socket.on("error", () => socket.destroy()).on("end", () => socket.destroy());
    socket.once("data", (bytes) => {
      clearTimeout(late);
      endSocket(socket, bytes.subarray(0, 3).equals(prefaceStart) ? goaway : rawAnswer(full));
      socket.resume();
    });
  }

  return {
    max,
    admit(accepted) {
      const reason = reasonAgainst(accepted);
      if (reason === undefined) return true;
      refused(reason);
      refuse(accepted);
      return false;
    },
    count(socket) {
      const address = isShared && socket.remoteAddress !== undefined ? networkOf(socket.remoteAddress) : undefined;
      open.add(socket);
      if (address !== undefined) byAddress.set(address, (byAddress.get(address) ?? 0) + 1);
      metrics.connectionsOpen.inc({ door });
      socket.once("close", () => {
        open.delete(socket);
        metrics.connectionsOpen.dec({ door });
        if (address === undefined) return;
        const left = (byAddress.get(address) ?? 0) - 1;
        if (left > 0) byAddress.set(address, left);
        else byAddress.delete(address);
      });
    },
    refused,
  };
}

const full = new Fault("overloaded", "too many open connections", { retryAfterSeconds: 1 });

const prefaceStart = Buffer.from("PRI");
/** SETTINGS, then GOAWAY: no stream was processed (0), because of ENHANCE_YOUR_CALM (RFC 9113, 6.8). */
const goaway = Buffer.from("000000040000000000000008070000000000000000000000000b", "hex");

/** IPv6 clients are counted by their /64 network: another address in it costs them nothing. */
export function networkOf(address: string): string {
  if (!address.includes(":")) return address;
  const [, ipv4] = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address) ?? [];
  if (ipv4 !== undefined) return ipv4;
  const [before = "", after] = (address.split("%", 1)[0] ?? "").split("::");
  const first = before === "" ? [] : before.split(":");
  const last = after === undefined || after === "" ? [] : after.split(":");
  const zeros = Array.from({ length: Math.max(0, 8 - first.length - last.length) }, () => "0");
  return [...first, ...zeros, ...last].slice(0, 4).join(":");
}
