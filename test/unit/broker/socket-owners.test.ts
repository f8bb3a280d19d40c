import type { Socket } from "node:net";
import { expect, it } from "vitest";
import { createLog } from "../../../src/base/log.ts";
import { createSocketOwners, ownerIn } from "../../../src/broker/identities/socket-owners.ts";

const head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n";
/** A row as Linux writes it on a little-endian machine. */
const row = (local: string, remote: string, state: string, uid: number, inode: number) =>
  `   7: ${local} ${remote} ${state} 00000000:00000000 00:00000000 00000000 ${String(uid).padStart(5)}        0 ${inode} 1 0000000085f9e000 20 4 30 10 -1\n`;

const us = "0100007F:0BBB";
const peer = "0100007F:C350";
const ends = { local: { address: "127.0.0.1", port: 3003 }, remote: { address: "127.0.0.1", port: 50_000 } };
const ownerOf = (...rows: readonly string[]) => ownerIn([head + rows.join("")], ends);

it("finds the row of the peer, not that of our own end", () => {
  expect(ownerOf(row(us, peer, "01", 65_532, 11), row(peer, us, "01", 1_000, 12))).toBe(1_000);
  expect(ownerOf(row(us, peer, "01", 65_532, 11))).toBeUndefined();
});

it.each([
  ["a connection that waits for its end, which shows the user 0", row(peer, us, "06", 0, 0)],
  ["a connection without a process, which shows the user 0", row(peer, us, "01", 0, 0)],
  ["a connection that is half closed", row(peer, us, "05", 1_000, 12)],
  ["another port that begins alike", row(`${peer}0`, us, "01", 1_000, 12)],
  ["a listener", row(peer, "00000000:0000", "0A", 1_000, 12)],
])("does not count %s", (_what, text) => {
  expect(ownerOf(text)).toBeUndefined();
});

it("knows the forms of IPv6, also of an IPv4 connection", () => {
  const six = "00000000000000000000000001000000";
  const both = { local: { address: "::1", port: 3003 }, remote: { address: "::1", port: 50_000 } };
  expect(ownerIn(["", row(`${six}:C350`, `${six}:0BBB`, "01", 1_001, 5)], both)).toBe(1_001);
  const mapped = "0000000000000000FFFF00000100007F";
  const text = row(`${mapped}:C350`, `${mapped}:0BBB`, "01", 1_002, 5);
  expect(ownerIn(["", text], ends)).toBe(1_002);
  const ofServer = {
    local: { address: "::ffff:127.0.0.1", port: 3003 },
    remote: { address: "::ffff:127.0.0.1", port: 50_000 },
  };
  expect(ownerIn([row(peer, us, "01", 1_003, 5), ""], ofServer)).toBe(1_003);
});

const socket = (remoteAddress = "127.0.0.1") =>
  ({ localAddress: "127.0.0.1", localPort: 3003, remoteAddress, remotePort: 50_000, destroyed: false }) as Socket;
const world = { log: createLog({ level: "error", format: "json", write: () => {} }) };

it("reads again what it missed, is sure of the user 0, and shares reads", async () => {
  const answers = [head, head + row(peer, us, "01", 1_000, 12)];
  let reads = 0;
  const read = async (path: string) => {
    if (path.endsWith("6")) return "";
    reads += 1;
    return answers.shift() ?? head + row(peer, us, "01", 0, 12);
  };
  const owners = createSocketOwners({ world, read });
  expect(await owners.of(socket())).toBe(1_000);
  expect(reads).toBe(2);
  expect(await owners.of(socket())).toBe(0);
  expect(reads).toBe(4);
  await Promise.all(Array.from({ length: 20 }, () => owners.of(socket())));
  expect(reads).toBeLessThanOrEqual(8);
});

it("knows nobody outside of the loopback interface, of other user namespaces, or without the table", async () => {
  const owners = (uid: number) => createSocketOwners({ world, read: async () => head + row(peer, us, "01", uid, 12) });
  expect(await owners(1_000).of(socket("10.0.0.1"))).toBeUndefined();
  expect(await owners(65_534).of(socket())).toBeUndefined();
  const failing = createSocketOwners({ world, read: () => Promise.reject(new Error("no /proc")) });
  expect(await failing.of(socket())).toBeUndefined();
});
