import type { Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, it, onTestFinished } from "vitest";
import { setBatchThreshold, waitsForOthers } from "../../../../src/relay/batching.ts";
import { createTrustedEgress } from "../../../../src/relay/egress.ts";
import { createSend } from "../../../../src/relay/send.ts";
import { createUpstream } from "../../../../src/relay/upstream.ts";
import { type Answering, startProvider } from "../../../support/peers/provider.ts";

const limits = { connectMs: 1_000, answerMs: 2_000, idleMs: 2_000, perOrigin: 8, waitingPerOrigin: 8 };
const ok: Answering = (_, socket) => void socket.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");

it.each<[string, (socket: Socket) => unknown]>([
  ["sends bytes", (socket) => socket.write("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged")],
  ["ends the connection", (socket) => socket.end()],
])("a request that waits for the end of its batch goes elsewhere when the provider %s before", async (_, spoil) => {
  const usualThreshold = 4;
  setBatchThreshold(0);
  onTestFinished(() => setBatchThreshold(usualThreshold));
  const provider = await startProvider(ok);
  const egress = createTrustedEgress({ resolve: async () => [{ address: "127.0.0.1", family: 4 }] });
  const upstream = createUpstream({ egress, limits, extraCa: undefined });
  onTestFinished(() => upstream.destroy());
  const send = createSend(upstream);
  const url = `http://127.0.0.1:${provider.port}/`;
  const ask = () => send({ url, method: "DELETE", headers: {}, mayFollow: true });
  expect((await ask()).body.toString()).toBe("ok");
  // Between two timers no bytes are read: the batch begins here, and its end comes after the reads of this tick.
  await sleep(5);
  waitsForOthers();
  const asking = ask();
  for (const { socket } of provider.connections) spoil(socket);
  expect((await asking).body.toString()).toBe("ok");
  expect(provider.connections.map((one) => one.requests().length)).toEqual([1, 1]);
});
