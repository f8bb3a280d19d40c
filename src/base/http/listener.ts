import { chmod, lstat, unlink } from "node:fs/promises";
import { connect, type Server } from "node:net";

/** Where a door listens: a port of an interface, or a Unix socket. */
export type ListenAddress =
  | { readonly kind: "tcp"; readonly host: string; readonly port: number }
  | { readonly kind: "unix"; readonly path: string };

/** Certificates of a door that speaks TLS; with `clientCa`, a caller must show one that it signed. */
export interface ListenerTls {
  readonly cert: string;
  readonly key: string;
  readonly clientCa?: string | undefined;
  /** Of a client's certificate, one of these subject alternative names must match (`DNS:…`, `URI:…`). */
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

/** The address as a caller writes it, with the port that was really taken. */
export function describeListener(server: Server, tls: boolean): string {
  const bound = server.address();
  if (bound === null) throw new Error("the server does not listen");
  if (typeof bound === "string") return `unix:${bound}`;
  const host = bound.family === "IPv6" ? `[${bound.address}]` : bound.address;
  return `${tls ? "https" : "http"}://${host}:${bound.port}`;
}

/**
 * As many as Linux lets wait to be accepted (`somaxconn`). With Node's 511 a burst of a few thousand callers is told
 * nothing at all, and tries again after a second, after three, after seven.
 */
const backlog = 4_096;

export async function listen(server: Server, address: ListenAddress): Promise<void> {
  if (address.kind === "tcp") return bind(server, { host: address.host, port: address.port });
  await removeStaleSocket(address.path);
  await bind(server, { path: address.path });
  // The group may connect, others may not: the caller runs under another user of the same pod.
  await chmod(address.path, 0o660);
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

/** A process that was killed leaves its socket behind. One that still answers, or is no socket, is not ours to remove. */
async function removeStaleSocket(path: string): Promise<void> {
  const found = await lstat(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return undefined;
    throw error;
  });
  if (found === undefined) return;
  if (!found.isSocket()) throw new Error(`${path} is there and is not a socket`);
  const alive = await new Promise<boolean>((resolve) => {
    const probe = connect(path, () => resolve(true));
    probe.once("error", () => resolve(false));
    probe.once("close", () => probe.destroy());
    probe.once("connect", () => probe.end());
  });
  if (alive) throw new Error(`another process listens on ${path}`);
  await unlink(path);
}
