import { once } from "node:events";
import http from "node:http";
import { type AddressInfo, connect } from "node:net";
import { expect, it, onTestFinished } from "vitest";
import { Http1Client } from "../../../../src/relay/client/http1-client.ts";
import { createHeadReader } from "../../../../src/relay/http1/response-head.ts";

/** Callers on a real listener: one for each request of these bytes. */
async function callersFor(bytes: string, count: number) {
  const callers: Http1Client[] = [];
  const left: number[] = [];
  const arrived = Promise.withResolvers<void>();
  const server = http.createServer((request, response) => {
    const at = callers.length;
    callers.push(
      new Http1Client(request, response, {
        fieldsFor: ({ fields }) => [...fields],
        linesFor: () => "",
        answerFailure: () => response.destroy(),
        leave: () => left.push(at),
        passedOn: () => {},
        takeMore: () => {},
        cut: () => {},
      }),
    );
    if (callers.length === count) arrived.resolve();
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  onTestFinished(() => void server.close().closeAllConnections());
  const socket = connect((server.address() as AddressInfo).port, "127.0.0.1", () => socket.write(bytes));
  await arrived.promise;
  return { callers, left, socket };
}

const head = createHeadReader({ names: [], prefix: "" })("HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n", false);

it("returns its buffers although its response was queued when the caller left", async () => {
  const asked = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
  const { callers, left, socket } = await callersFor(asked + asked, 2);
  const back = Promise.withResolvers<string>();
  if (head !== undefined) callers[1]?.onHead(head, true);
  callers[1]?.onContent(Buffer.alloc(100_000), () => back.resolve("back"));
  socket.destroy();
  expect(await back.promise).toBe("back");
  expect(left.sort()).toEqual([0, 1]);
});
