import { chmod, chown, lstat, unlink } from "node:fs/promises";
import { connect, type Server } from "node:net";
import { isMainThread } from "node:worker_threads";

/** Address of a listener: a port of an interface, or a Unix socket. */
export type ListenAddress = { readonly kind: "tcp"; readonly host: string; readonly port: number } | UnixAddress;

/** A Unix socket. The system lets those connect who may write to it. */
export interface UnixAddress {
  readonly kind: "unix";
  readonly path: string;
  /** IDs of the user and the group; undefined: those of the process. */
  readonly owner?: number | undefined;
  readonly group?: number | undefined;
  /** Permissions; undefined: 0660. */
  readonly mode?: number | undefined;
}

/** Certificates of a TLS listener. With `clientCa`, clients must present a certificate of this CA. */
export interface ListenerTls {
  readonly cert: string;
  readonly key: string;
  readonly clientCa?: string | undefined;
  /** Clients may have no certificate; one that they show must still be valid. */
  readonly isClientOptional?: boolean | undefined;
  /** Accepted subject alternative names of client certificates (`DNS:…`, `URI:…`): one must match. */
  readonly clientNames?: readonly string[] | undefined;
}

/** `127.0.0.1:3003`, `[::1]:3003`, `:0` (any port of the loopback interface) or `unix:/path`. */
export function parseListenAddress(text: string): ListenAddress | undefined {
  if (text.startsWith("unix:")) {
    const path = text.slice("unix:".length);
    return path.startsWith("/") && !path.includes("\0") ? { kind: "unix", path } : undefined;
  }
  const match = /^(?:\[([0-9a-fA-F:.]+)\]|([A-Za-z0-9.-]*)):(\d{1,5})$/.exec(text);
  if (match === null) return undefined;
  const port = Number(match[3]);
  if (port > 65_535) return undefined;
  return { kind: "tcp", host: match[1] ?? (match[2] || "127.0.0.1"), port };
}

/** Returns the address as a caller writes it, with the actual port. */
export function describeListener(server: Server, tls: boolean): string {
  const bound = server.address();
  if (bound === null) throw new Error("the server is not listening");
  if (typeof bound === "string") return `unix:${bound}`;
  const host = bound.family === "IPv6" ? `[${bound.address}]` : bound.address;
  return `${tls ? "https" : "http"}://${host}:${bound.port}`;
}

/**
 * Backlog: the maximum that Linux allows (`somaxconn`). With Node's 511, connections of a burst of a few thousand callers
 * are dropped silently, and TCP retries after 1, 3 and 7 seconds.
 */
export const backlog = 4_096;

export async function listen(server: Server, address: ListenAddress): Promise<void> {
  if (address.kind === "tcp") return bind(server, { host: address.host, port: address.port });
  const { path, owner, group, mode = sharedMode } = address;
  await removeStaleSocket(path);
  await withUmask(0o177, () => bind(server, { path }));
  if (owner !== undefined || group !== undefined) await chown(path, owner ?? unchanged, group ?? unchanged);
  await chmod(path, mode);
}

/** The group may connect: callers run under another user of the same pod. */
const sharedMode = 0o660;
/** Keeps the owner or the group, see chown(2). */
const unchanged = -1;

/** Until its permissions are set, only our own user may connect. Node binds before `run` returns. */
function withUmask<T>(mask: number, run: () => T): T {
  if (!isMainThread) return run();
  const before = process.umask(mask);
  try {
    return run();
  } finally {
    process.umask(before);
  }
}

function bind(server: Server, options: { host: string; port: number } | { path: string }): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen({ ...options, backlog }, () => {
      server.off("error", reject);
      resolve();
    });
  });
}

/** Removes the socket of a killed process. A socket that still accepts connections, or another file, stays. */
async function removeStaleSocket(path: string): Promise<void> {
  const found = await lstat(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return undefined;
    throw error;
  });
  if (found === undefined) return;
  if (!found.isSocket()) throw new Error(`${path} exists and is not a socket`);
  const alive = await new Promise<boolean>((resolve) => {
    const probe = connect(path, () => resolve(true));
    probe.once("error", () => resolve(false));
    probe.once("close", () => probe.destroy());
    probe.once("connect", () => probe.end());
  });
  if (alive) throw new Error(`another process listens on ${path}`);
  await unlink(path);
}
