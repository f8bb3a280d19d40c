/**
 * The provider of the bench, its own program: `node proxy-origin.ts HTTP_PORT HTTPS_PORT CERTIFICATE KEY`. It uses raw
 * sockets, to take little of the core that it shares with the load.
 */
import { readFileSync } from "node:fs";
import { createServer, type Socket } from "node:net";
import { createServer as createTlsServer } from "node:tls";
import { answerFields, smallBytes, streamEveryMs } from "./proxy-paths.ts";

const [httpPort = "", httpsPort = "", certificate = "", key = ""] = process.argv.slice(2);
const crlf = "\r\n";
const answerOf = (fields: readonly string[], body: string) =>
  Buffer.from(["HTTP/1.1 200 OK", ...fields, `Content-Length: ${body.length}`, "", body].join(crlf));
const small = answerOf(["Content-Type: application/json", "Connection: keep-alive"], "x".repeat(smallBytes));
const withFields = answerOf([...answerFields, "Connection: keep-alive"], "x".repeat(smallBytes));
const taken = answerOf(["Content-Type: application/json"], "{}");
const streamHead = ["HTTP/1.1 200 OK", "Content-Type: text/event-stream", "Transfer-Encoding: chunked", "", ""].join(
  crlf,
);
const event = "data: {}\n\n";
const eventChunk = `${event.length.toString(16)}${crlf}${event}${crlf}`;
const block = Buffer.alloc(256 * 1024, "x");

const streams = new Set<Socket>();
setInterval(() => {
  for (const socket of streams) socket.write(eventChunk);
}, streamEveryMs);

function onSocket(socket: Socket): void {
  let head = "";
  let bodyLeft = 0;
  socket.setNoDelay(true);
  socket.on("error", () => socket.destroy());
  socket.on("close", () => streams.delete(socket));
  socket.on("data", (chunk: Buffer) => {
    if (bodyLeft > 0) {
      bodyLeft -= chunk.length;
      if (bodyLeft <= 0) socket.write(taken);
      return;
    }
    head += chunk.toString("latin1");
    const end = head.indexOf("\r\n\r\n");
    if (end === -1) return;
    const rest = head.length - end - 4;
    const whole = head;
    head = "";
    const [, path = ""] = whole.split(" ", 2);
    if (whole.startsWith("POST")) {
      bodyLeft = Number(/\r\ncontent-length: *(\d+)/i.exec(whole)?.[1] ?? 0) - rest;
      if (bodyLeft <= 0) socket.write(taken);
    } else if (path === "/fields") {
      socket.write(withFields);
    } else if (path === "/stream") {
      socket.write(streamHead + eventChunk);
      streams.add(socket);
    } else if (path.startsWith("/down/")) {
      sendMany(socket, Number(path.slice("/down/".length)));
    } else {
      socket.write(small);
    }
  });
}

function sendMany(socket: Socket, bytes: number): void {
  let left = bytes;
  socket.write(`HTTP/1.1 200 OK${crlf}Content-Length: ${bytes}${crlf}${crlf}`);
  const more = () => {
    while (left > 0) {
      const piece = left >= block.length ? block : block.subarray(0, left);
      left -= piece.length;
      if (!socket.write(piece)) {
        socket.once("drain", more);
        return;
      }
    }
  };
  more();
}

const tls = { cert: readFileSync(certificate), key: readFileSync(key) };
createServer(onSocket).listen({ port: Number(httpPort), host: "127.0.0.1", backlog: 4_096 });
createTlsServer(tls, onSocket).listen({ port: Number(httpsPort), host: "127.0.0.1", backlog: 4_096 });
