import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { expect, it, onTestFinished } from "vitest";
import { ClientConnection } from "../../../../src/relay/client/client-connection.ts";
import type { ClientConnectionOwner } from "../../../../src/relay/client/client-connection-owner.ts";

type Take = ClientConnectionOwner<ClientConnection>["take"];

/** Sends a request to a connection whose owner takes it so, and returns what another parser gets of it. */
async function handedOver(take: Take): Promise<string> {
  const { promise, resolve } = Promise.withResolvers<Socket>();
  const owner: ClientConnectionOwner<ClientConnection> = {
    take,
    handOver: (_, socket) => resolve(socket),
    refuse: (socket) => socket.destroy(),
    closed() {},
    isLeaving: false,
    nowMs: 0,
  };
  const server = createServer((socket) => void new ClientConnection(socket, owner)).listen(0, "127.0.0.1");
  onTestFinished(() => void server.close());
  await once(server, "listening");
  const client = connect((server.address() as AddressInfo).port, "127.0.0.1");
  onTestFinished(() => void client.destroy());
  client.write("GET / HTTP/1.1\r\nhost: a\r\n\r\n");
  const [bytes] = (await once(await promise, "data")) as [Buffer];
  return bytes.toString();
}

it("hands a request over when nothing is found after it was asked for again", async () => {
  const unhandled: unknown[] = [];
  const note = (reason: unknown) => void unhandled.push(reason);
  process.on("unhandledRejection", note);
  onTestFinished(() => void process.off("unhandledRejection", note));
  for (const rejectsAt of [1, 2, 3]) {
    let asked = 0;
    const take = () => {
      asked += 1;
      return asked === rejectsAt ? Promise.reject(new Error("there is none")) : Promise.resolve();
    };
    expect(await handedOver(take)).toContain("GET / HTTP/1.1");
    expect(asked).toBe(rejectsAt);
  }
  await new Promise(setImmediate);
  expect(unhandled).toEqual([]);
});
