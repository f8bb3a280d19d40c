/**
 * Applications that receive deliveries, in their own process: `/fast`, `/fleet-…`, `/gone`, `/dead`. Reports on request what it
 * received. It uses raw sockets, to take little of the cores that it shares with the sidecar.
 */
import { type AddressInfo, createServer, type Socket } from "node:net";
import { createInterface } from "node:readline";

const got: Record<string, number> = { "/fast": 0, "/gone": 0, "/dead": 0 };
/** When the last delivery arrived. */
let lastAt = 0;

const answerOf = (status: string) => `HTTP/1.1 ${status}\r\ncontent-length: 2\r\n\r\n{}`;
const answers: Readonly<Record<string, string>> = {
  "/fast": answerOf("200 OK"),
  "/fleet-1": answerOf("200 OK"),
  "/fleet-3": answerOf("200 OK"),
  "/gone": answerOf("410 Gone"),
};

function onSocket(socket: Socket): void {
  let unread = "";
  socket.setNoDelay(true);
  socket.on("error", () => socket.destroy());
  socket.on("data", (chunk: Buffer) => {
    unread += chunk.toString("latin1");
    for (;;) {
      const end = unread.indexOf("\r\n\r\n");
      const whole = end + 4 + Number(/\r\ncontent-length: *(\d+)/i.exec(unread)?.[1] ?? 0);
      if (end === -1 || unread.length < whole) return;
      const [, url = ""] = unread.split(" ", 2);
      unread = unread.slice(whole);
      got[url] = (got[url] ?? 0) + 1;
      lastAt = performance.timeOrigin + performance.now();
      const answer = answers[url];
      if (answer !== undefined) socket.write(answer);
    }
  });
}

const server = createServer(onSocket).listen({ port: 0, host: "127.0.0.1", backlog: 4_096 }, () => {
  process.stdout.write(`${(server.address() as AddressInfo).port}\n`);
});
const reader = createInterface({ input: process.stdin });
reader.on("line", () => process.stdout.write(`${JSON.stringify({ got, lastAt })}\n`));
reader.on("close", () => process.exit());
