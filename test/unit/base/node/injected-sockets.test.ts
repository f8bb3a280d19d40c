import { once } from "node:events";
import http from "node:http";
import net, { type AddressInfo, type Socket } from "node:net";
import { expect, it, onTestFinished } from "vitest";
import { startInjection } from "../../../../src/base/node/injected-sockets.ts";

/** Listens for sockets, and gives them to a server that does not listen itself. */
async function serve(server: http.Server): Promise<number> {
  const inject = startInjection(server);
  const listener = net.createServer({ allowHalfOpen: true }, (socket) => inject(socket));
  listener.listen(0, "127.0.0.1");
  await once(listener, "listening");
  onTestFinished(() => void listener.close());
  return (listener.address() as AddressInfo).port;
}

function connectTo(port: number): Socket {
  const socket = net.connect(port, "127.0.0.1");
  onTestFinished(() => void socket.destroy());
  return socket;
}

const options = { headersTimeout: 300, requestTimeout: 0, connectionsCheckingInterval: 50 };

it("has Node refuse a head that takes too long", async () => {
  const socket = connectTo(await serve(http.createServer(options)));
  socket.write("GET / HT");
  const [bytes] = await once(socket, "data");
  expect(String(bytes)).toMatch(/^HTTP\/1\.1 408 /);
});

it("closes a silent socket itself where Node does not check heads, and lets a request take its time", async () => {
  const server = http.createServer(options, (_request, response) => {
    setTimeout(() => response.end("late"), 600);
  });
  server.removeAllListeners("listening");
  const port = await serve(server);
  const silent = connectTo(port);
  const asking = connectTo(port);
  asking.write("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  await once(silent, "close");
  const [bytes] = await once(asking, "data");
  expect(String(bytes)).toMatch(/^HTTP\/1\.1 200 /);
});
