import { readdirSync, readFileSync, readlinkSync } from "node:fs";

const tables = ["/proc/net/tcp", "/proc/net/tcp6"];
/** State of a socket that listens, in these tables. */
const listening = "0A";

/** Returns the TCP ports on which a process listens. Linux only. */
export function listeningPorts(pid: number): number[] {
  const folder = `/proc/${pid}/fd`;
  const sockets = new Set(readdirSync(folder).flatMap((name) => linkOf(`${folder}/${name}`)));
  return tables.flatMap((table) =>
    readFileSync(table, "utf8")
      .split("\n")
      .map((line) => line.trim().split(/\s+/))
      .filter(([, , , state, , , , , , inode]) => state === listening && sockets.has(`socket:[${inode}]`))
      .map(([, address = ""]) => Number.parseInt(address.split(":")[1] ?? "", 16)),
  );
}

/** A descriptor may be closed in the meantime. */
function linkOf(path: string): string[] {
  try {
    return [readlinkSync(path)];
  } catch {
    return [];
  }
}
