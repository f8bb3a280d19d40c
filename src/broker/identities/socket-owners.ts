import { readFile } from "node:fs/promises";
import type { Socket } from "node:net";
import { endianness } from "node:os";
import type { World } from "../../base/world.ts";

/** Says which user of this machine, or of this pod, has opened a TCP connection to us. */
export interface SocketOwners {
  /** Returns the user's ID. Undefined: the peer is not on the loopback interface, has left, or cannot be told. */
  of(socket: Socket): Promise<number | undefined>;
}

/** The two ends of a connection, seen from us. */
interface SocketEnds {
  readonly local: SocketEnd;
  readonly remote: SocketEnd;
}

interface SocketEnd {
  readonly address: string;
  readonly port: number;
}

const tables = ["/proc/net/tcp", "/proc/net/tcp6"] as const;
/** A row may be skipped while other rows of the table are removed. */
const attempts = 3;
/** The user that stands for those of other user namespaces. */
const overflowUid = 65_534;

type ReadTable = (path: string) => Promise<string>;

interface SocketOwnersOptions {
  readonly world: Pick<World, "log">;
  readonly read?: ReadTable;
}

/**
 * Reads Linux's table of TCP sockets, which has the owner of each socket in our network namespace: Node offers no
 * SO_PEERCRED (docs/decisions/0041).
 */
export function createSocketOwners({
  world,
  read = (path) => readFile(path, "latin1"),
}: SocketOwnersOptions): SocketOwners {
  let hasWarned = false;
  /** The read that has not begun yet: it is shared, so that many new connections cause few reads. */
  let next: Promise<readonly string[]> | undefined;
  let running: Promise<unknown> = Promise.resolve();

  function readTables(): Promise<readonly string[]> {
    next ??= running.then(() => {
      next = undefined;
      const reading = Promise.all(tables.map(readTable));
      running = reading;
      return reading;
    });
    return next;
  }

  /** Without IPv6, the second table is missing. */
  async function readTable(path: string): Promise<string> {
    try {
      return await read(path);
    } catch (error) {
      const { code, message } = error as NodeJS.ErrnoException;
      if (!(code === "ENOENT" && path.endsWith("6")) && !hasWarned) {
        hasWarned = true;
        world.log.warn("cannot read who has opened a connection; rules with `unix.uid` match no caller", {
          reason: code ?? message,
        });
      }
      return "";
    }
  }

  async function ownerOf(ends: SocketEnds): Promise<number | undefined> {
    for (let attempt = 0; attempt < attempts; attempt += 1) {
      const owner = ownerIn(await readTables(), ends);
      if (owner !== undefined) return owner;
    }
    return undefined;
  }

  return {
    async of(socket) {
      const ends = loopbackEnds(socket);
      if (ends === undefined) return undefined;
      const owner = await ownerOf(ends);
      // A socket that was closed between two columns of its row shows the user 0.
      const isSure = owner !== 0 || (await ownerOf(ends)) === 0;
      return owner === overflowUid || !isSure || socket.destroyed ? undefined : owner;
    },
  };
}

/** Returns both ends in the form of the tables; undefined unless both are loopback addresses. */
export function loopbackEnds({ localAddress, localPort, remoteAddress, remotePort }: SocketAddresses) {
  if (localAddress === undefined || remoteAddress === undefined) return undefined;
  if (localPort === undefined || remotePort === undefined) return undefined;
  if (!isLoopback(localAddress) || !isLoopback(remoteAddress)) return undefined;
  return { local: { address: localAddress, port: localPort }, remote: { address: remoteAddress, port: remotePort } };
}

type SocketAddresses = Pick<Socket, "localAddress" | "localPort" | "remoteAddress" | "remotePort">;

const isLoopback = (address: string): boolean => address === "::1" || /^(?:::ffff:)?127(?:\.\d{1,3}){3}$/.test(address);

/**
 * Returns the owner of the peer's socket. Counts a connection that is established and has a process: all others show
 * the user 0.
 */
export function ownerIn(texts: readonly string[], { local, remote }: SocketEnds): number | undefined {
  const established = "01";
  for (const text of texts) {
    for (const form of formsOf({ local, remote })) {
      const at = text.indexOf(` ${form.remote} ${form.local} ${established} `);
      if (at === -1) continue;
      const end = text.indexOf("\n", at);
      // The peer's end is the first address of its row.
      const columns = text
        .slice(at, end === -1 ? undefined : end)
        .trim()
        .split(/\s+/);
      const [uid, inode] = [Number(columns[6]), Number(columns[8])];
      if (Number.isInteger(uid) && inode > 0) return uid;
    }
  }
  return undefined;
}

/** The peer may have opened an IPv4 connection with a socket of IPv6. */
function formsOf({ local, remote }: SocketEnds): readonly { readonly local: string; readonly remote: string }[] {
  const four = [local, remote].map(({ address, port }) => [address.replace(/^::ffff:/, ""), port] as const);
  const isFour = four.every(([address]) => !address.includes(":"));
  const pairs = isFour ? [four, four.map(([address, port]) => [`::ffff:${address}`, port] as const)] : [four];
  return pairs.map(([us, peer]) => ({ local: rowForm(us), remote: rowForm(peer) }));
}

function rowForm([address, port]: readonly [string, number] = ["", 0]): string {
  const bytes = address === "::1" ? [...Array<number>(15).fill(0), 1] : fourBytes(address);
  const words = Array.from({ length: bytes.length / 4 }, (_, i) => bytes.slice(i * 4, i * 4 + 4));
  const hex = words.flatMap((word) => (endianness() === "LE" ? word.toReversed() : word)).map((byte) => hexOf(byte, 2));
  return `${hex.join("")}:${hexOf(port, 4)}`;
}

function fourBytes(address: string): readonly number[] {
  const bytes = address.replace("::ffff:", "").split(".").map(Number);
  return address.startsWith("::ffff:") ? [...Array<number>(10).fill(0), 255, 255, ...bytes] : bytes;
}

const hexOf = (value: number, digits: number) => value.toString(16).toUpperCase().padStart(digits, "0");
