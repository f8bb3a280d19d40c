import { readFileSync } from "node:fs";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { pipeline } from "node:stream";
import { endSocket } from "../../../base/http/end-socket.ts";

/** A port of this machine that adds the key to requests for tunnels, for programs that cannot send one. */
export interface LocalPort {
  readonly host: string;
  readonly port: number;
  close(): void;
}

interface LocalPortOptions {
  /** `http://host:port` of the forward proxy. */
  readonly proxy: string;
  /** The value of `Proxy-Authorization`. */
  readonly authorization: string;
  readonly uid: number;
}

const maxHeadBytes = 16 * 1024;
const refusal = "HTTP/1.1 405 Method Not Allowed\r\nallow: CONNECT\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

/**
 * Opens a port for programs of this user alone: on Linux, where the system tells the user of each connection. Elsewhere
 * there is none.
 */
export async function openLocalPort(options: LocalPortOptions): Promise<LocalPort | undefined> {
  if (process.platform !== "linux") return undefined;
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => socket.destroy()).once("close", () => sockets.delete(socket));
    if (isOfUser(socket, options.uid)) serve(socket, options);
    else socket.destroy();
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject).listen(0, "127.0.0.1", resolve);
  });
  const { port } = server.address() as AddressInfo;
  return {
    host: "127.0.0.1",
    port,
    close() {
      server.close();
      for (const socket of sockets) socket.destroy();
    },
  };
}

function serve(socket: Socket, { proxy, authorization }: LocalPortOptions): void {
  let head = Buffer.alloc(0);
  const onData = (chunk: Buffer) => {
    head = Buffer.concat([head, chunk]);
    const end = head.indexOf("\r\n\r\n");
    if (end === -1 && head.length < maxHeadBytes) return;
    socket.off("data", onData).pause();
    const lines = head.subarray(0, Math.max(end, 0)).toString("latin1").split("\r\n");
    if (!lines[0]?.startsWith("CONNECT ")) {
      endSocket(socket, refusal);
      return;
    }
    const kept = lines.filter((line) => !/^proxy-authorization:/i.test(line));
    const sent = [...kept, `Proxy-Authorization: ${authorization}`, "", ""].join("\r\n");
    const { hostname, port } = new URL(proxy);
    const there = connect(Number(port || 80), hostname.replace(/^\[(.*)\]$/, "$1"));
    there.write(Buffer.concat([Buffer.from(sent, "latin1"), head.subarray(end + 4)]));
    pipeline(socket, there, () => {});
    pipeline(there, socket, () => {});
  };
  socket.on("data", onData);
}

/** Finds the owner of the peer's socket in the system's table of connections. */
function isOfUser({ remotePort = 0, localPort = 0 }: Socket, uid: number): boolean {
  const hex = (port: number) => port.toString(16).toUpperCase().padStart(4, "0");
  const row = new RegExp(`:${hex(remotePort)} [0-9A-F]+:${hex(localPort)} \\S+ \\S+ \\S+ \\S+ +(\\d+) `);
  for (const table of ["/proc/net/tcp", "/proc/net/tcp6"]) {
    const [, owner] = row.exec(readTable(table)) ?? [];
    if (owner !== undefined) return Number(owner) === uid;
  }
  return false;
}

function readTable(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    // A system without IPv6 has no such table.
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return "";
    throw error;
  }
}
