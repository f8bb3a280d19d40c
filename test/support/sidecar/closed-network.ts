import { once } from "node:events";
import { connect, createServer } from "node:net";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import { temporaryFolder } from "./harness.ts";

/** A network in which nothing is reachable but one place: a TCP port that leads to a port of this machine. */
export interface ClosedNetwork {
  /** Runs a command in it, with `sh`. */
  readonly within: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  /** The place that is reachable, as seen from inside. */
  readonly gate: { readonly host: string; readonly port: number };
}

/** Sockets of a folder are the same in every network: one leads out. */
const forwarder = `
const net = require("node:net");
net.createServer((near) => {
  const far = net.connect(process.env.GATE_SOCKET);
  near.pipe(far).pipe(near);
  near.on("error", () => far.destroy());
  far.on("error", () => near.destroy()).on("close", () => near.destroy());
}).listen(3128, "127.0.0.1");
`;

export async function openClosedNetwork(to: { readonly host: string; readonly port: number }): Promise<ClosedNetwork> {
  const path = join(await temporaryFolder(), "gate.sock");
  const server = createServer((near) => {
    const far = connect(to);
    near.pipe(far).pipe(near);
    near.on("error", () => far.destroy());
    far.on("error", () => near.destroy()).on("close", () => near.destroy());
  });
  await once(server.listen(path), "listening");
  onTestFinished(() => void server.close());
  const script = 'ip link set lo up && { "$1" -e "$GATE_PROGRAM" & "$@"; }';
  return {
    within: [
      ...["unshare", "--map-root-user", "--net", "--pid", "--fork", "--kill-child"],
      ...["sh", "-c", script, "sh"],
    ],
    env: { GATE_PROGRAM: forwarder, GATE_SOCKET: path },
    gate: { host: "127.0.0.1", port: 3128 },
  };
}
