import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { expect, it, onTestFinished } from "vitest";
import { createSocketSink } from "../../../../src/relay/http2/socket-sink.ts";
import { FrameOutput } from "../../../../src/relay/http2/wire/frame-output.ts";

it("sends each connection its own bytes, though they share buffers and one peer reads late", async () => {
  const accepted: Socket[] = [];
  const server = createServer((socket) => void accepted.push(socket.pause()));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const sockets = await Promise.all(
    [0, 1].map(async () => {
      const socket = connect((server.address() as AddressInfo).port, "127.0.0.1");
      await once(socket, "connect");
      return socket;
    }),
  );
  onTestFinished(() => {
    for (const socket of [...sockets, ...accepted]) socket.destroy();
    server.close();
  });
  await expect.poll(() => accepted.length).toBe(2);
  const outputs = sockets.map((socket) => new FrameOutput(createSocketSink(socket), () => {}));
  const sent = ["", ""];
  // More than the buffers of a kernel take, so that some of it waits in the socket.
  for (let round = 0; round < 800; round += 1) {
    for (const [i, output] of outputs.entries()) {
      const content = `${i}:${round};`.padEnd(9_000, String(i));
      output.data(1, Buffer.from(content), false);
      output.flush();
      sent[i] += content;
    }
  }
  expect(sockets.some(({ writableLength }) => writableLength > 100_000)).toBe(true);
  const received = await Promise.all(
    accepted.map(async (socket) => {
      const parts: Buffer[] = [];
      let length = 0;
      socket.on("data", (part: Buffer) => {
        parts.push(part);
        length += part.length;
      });
      socket.resume();
      const expected = 800 * (9_000 + 9);
      while (length < expected) await once(socket, "data");
      let bytes = Buffer.concat(parts);
      let text = "";
      for (; bytes.length > 0; bytes = bytes.subarray(9_009)) text += bytes.toString("latin1", 9, 9_009);
      return text;
    }),
  );
  const inOrder = received[0]?.startsWith("0:") === true ? received : received.toReversed();
  expect(inOrder.map((text, i) => text === sent[i])).toEqual([true, true]);
});
