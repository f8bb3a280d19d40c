import { createSocket } from "node:dgram";
import { Resolver } from "node:dns/promises";
import { once } from "node:events";
import { isIPv4 } from "node:net";
import { onTestFinished } from "vitest";
import type { ResolveHost } from "../../../src/relay/egress.ts";

/** What each name resolves to: addresses, or first an alias; evaluated for each query. */
export type Zone = Readonly<Record<string, () => { readonly addresses: readonly string[]; readonly alias?: string }>>;

/** A DNS server over UDP with TTL 0, and a resolver that queries only this server. */
export async function startDns(zone: Zone): Promise<ResolveHost> {
  const socket = createSocket("udp4");
  socket.on("message", (question, { port, address }) => socket.send(answerTo(question, zone), port, address));
  socket.bind(0, "127.0.0.1");
  await once(socket, "listening");
  onTestFinished(() => void socket.close());
  const resolver = new Resolver({ timeout: 1_000, tries: 1 });
  resolver.setServers([`127.0.0.1:${socket.address().port}`]);
  return async (host) => {
    const found = await Promise.allSettled([resolver.resolve4(host), resolver.resolve6(host)]);
    const addresses = found.flatMap((one, i) =>
      one.status === "fulfilled" ? one.value.map((address) => ({ address, family: i === 0 ? 4 : 6 })) : [],
    );
    const [first] = found;
    if (addresses.length === 0 && first?.status === "rejected") throw first.reason;
    return addresses;
  };
}

const types = { A: 1, CNAME: 5, AAAA: 28 };

/** RFC 1035, section 4. */
function answerTo(question: Buffer, zone: Zone): Buffer {
  const labels: string[] = [];
  let at = 12;
  for (let length = question[at] ?? 0; length > 0; length = question[at] ?? 0) {
    labels.push(question.toString("latin1", at + 1, at + 1 + length));
    at += 1 + length;
  }
  const type = question.readUInt16BE(at + 1);
  const asked = question.subarray(12, at + 5);
  const entry = zone[labels.join(".").toLowerCase()]?.();
  const wanted = (entry?.addresses ?? []).filter((one) => isIPv4(one) === (type === types.A));
  const owner = entry?.alias === undefined ? Buffer.from([0xc0, 12]) : nameOf(entry.alias);
  const records = [
    ...(entry?.alias === undefined ? [] : [record(Buffer.from([0xc0, 12]), types.CNAME, nameOf(entry.alias))]),
    ...wanted.map((one) => record(owner, type, isIPv4(one) ? Buffer.from(one.split(".").map(Number)) : ipv6(one))),
  ];
  const header = Buffer.alloc(12);
  question.copy(header, 0, 0, 2);
  header.writeUInt16BE(entry === undefined ? 0x8183 : 0x8180, 2);
  header.writeUInt16BE(1, 4);
  header.writeUInt16BE(records.length, 6);
  return Buffer.concat([header, asked, ...records]);
}

function record(owner: Buffer, type: number, data: Buffer): Buffer {
  const fixed = Buffer.alloc(10);
  fixed.writeUInt16BE(type, 0);
  fixed.writeUInt16BE(1, 2);
  fixed.writeUInt16BE(data.length, 8);
  return Buffer.concat([owner, fixed, data]);
}

const nameOf = (name: string) =>
  Buffer.concat([...name.split(".").map((one) => Buffer.from([one.length, ...Buffer.from(one)])), Buffer.from([0])]);

function ipv6(address: string): Buffer {
  const [left = "", right = ""] = address.split("::");
  const parse = (part: string) => (part === "" ? [] : part.split(":").map((one) => Number.parseInt(one, 16)));
  const [before, behind] = [parse(left), parse(right)];
  const groups = [...before, ...Array.from({ length: 8 - before.length - behind.length }, () => 0), ...behind];
  return Buffer.from(groups.flatMap((one) => [one >> 8, one & 255]));
}
