import { once } from "node:events";
import { Agent, createServer, type IncomingMessage, request, type Server, type ServerResponse } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import { expect, it, onTestFinished } from "vitest";
import { startProvider, startProxied } from "../../support/peers/provider.ts";
import { below, seeded } from "../../support/runner/seeded.ts";

/** Responses by the first segment of a path; their text is the rest of the path, and the request's body. */
const answers: Readonly<Record<string, (response: ServerResponse, said: string) => void>> = {
  length: (response, said) => void response.writeHead(200, { "content-length": said.length }).end(said),
  apart(response, said) {
    // Sends the head, and its body a moment later.
    response.writeHead(200, { "content-length": said.length }).flushHeaders();
    setImmediate(() => response.end(said));
  },
  chunks(response, said) {
    for (const piece of said.match(/.{1,500}/g) ?? []) response.write(piece);
    response.end();
  },
  end(response, said) {
    // Only the end of the connection ends the response.
    response.socket?.end(`HTTP/1.1 200 OK\r\n\r\n${said}`);
  },
  last: (response, said) => void response.writeHead(200, { connection: "close" }).end(said),
  hints(response, said) {
    response.writeEarlyHints({ link: "</a>; rel=preload" });
    response.end(said);
  },
  large: (response, said) => void response.end(said.padEnd(200_000, "-")),
  nothing: (response) => void response.writeHead(204).end(),
  gone: (response) => void response.socket?.resetAndDestroy(),
};
const kinds = Object.keys(answers);

async function startAnswering(): Promise<Server> {
  const server = createServer(async (asked: IncomingMessage, response) => {
    const [, kind = "", rest = ""] = (asked.url ?? "").split("/");
    asked.setEncoding("latin1");
    let body = "";
    for await (const piece of asked) body += piece;
    answers[kind]?.(response, `${rest} ${body}`);
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return server;
}

const expectedOf = (kind: string, said: string): readonly [number, string] => {
  if (kind === "nothing") return [204, ""];
  return [200, kind === "large" ? said.padEnd(200_000, "-") : said];
};

it.each([1, 2, 3])(
  "gives each of many connections its own response, whatever providers and callers do (%i)",
  async (seed) => {
    const random = seeded(seed);
    const { port } = (await startAnswering()).address() as AddressInfo;
    const { data, proxyHeaders } = await startProxied(port);
    const agent = new Agent({ keepAlive: true, maxSockets: 200 });
    onTestFinished(() => agent.destroy());

    function ask(id: string): Promise<void> {
      const kind = kinds[below(random, kinds.length)] ?? "";
      const isGet = below(random, 3) > 0;
      const body = isGet ? "" : id.repeat(below(random, 4) === 0 ? 20_000 : 3);
      const leavesAfter = below(random, 12) === 0 ? below(random, 4) : undefined;
      return new Promise((resolve, reject) => {
        const asked = request(
          `${data}/proxy/${kind}/${id}`,
          // A request body of unknown length takes the general path.
          { agent, method: isGet ? "GET" : "POST", headers: { ...proxyHeaders, ...(isGet ? {} : lengthOf(body)) } },
          (answer) => {
            let text = "";
            answer.setEncoding("latin1").on("data", (piece) => {
              text += piece;
            });
            answer.on("end", () => {
              const { statusCode } = answer;
              if (kind === "gone") expect([kind, id, statusCode]).toEqual([kind, id, 502]);
              else expect([kind, id, statusCode, text]).toEqual([kind, id, ...expectedOf(kind, `${id} ${body}`)]);
              resolve();
            });
            answer.on("error", () =>
              leavesAfter === undefined ? reject(new Error(`${kind} ${id} was cut`)) : resolve(),
            );
          },
        );
        asked.on("error", (error) => (leavesAfter === undefined ? reject(error) : resolve()));
        asked.on("close", resolve);
        asked.end(body);
        if (leavesAfter !== undefined) setTimeout(() => asked.destroy(), leavesAfter);
      });
    }

    const lengthOf = (body: string) => (below(random, 4) === 0 ? {} : { "content-length": body.length });
    for (let round = 0; round < 25; round += 1) {
      await Promise.all(Array.from({ length: 100 }, (_, i) => ask(`r${round}-${i}`)));
    }
  },
);

it("answers pipelined requests in order, and the last one before a close", async () => {
  const { port } = (await startAnswering()).address() as AddressInfo;
  const { data, proxyLines } = await startProxied(port);
  const door = new URL(data);
  const get = (path: string, more = "") => `GET /proxy${path} HTTP/1.1\r\nHost: localhost\r\n${proxyLines}${more}\r\n`;

  async function ask(i: number): Promise<void> {
    const socket = connect(Number(door.port), door.hostname);
    let text = "";
    socket.setEncoding("latin1").on("data", (piece) => {
      text += piece;
    });
    const first = get(`/${i % 4 < 2 ? "apart" : "length"}/${i}a`);
    // An unknown route takes the general path, and so does the request behind it.
    const isOdd = i % 3 === 0;
    const second = isOdd ? get(`/length/${i}b`).replace("/proxy", "/nowhere") : get(`/length/${i}b`);
    const isLast = i % 5 > 1;
    const all = first + second + get(`/chunks/${i}c`) + get(`/length/${i}d`, isLast ? "Connection: close\r\n" : "");
    if (isLast) socket.write(all);
    else socket.end(i % 5 === 0 ? all : all.slice(0, -10));
    await once(socket, "close");
    const wanted = [`${i}a`, isOdd ? "404" : `${i}b`, `${i}c`, `${i}d`];
    const found = [...text.matchAll(/(\d+[abcd]) |HTTP\/1.1 (4\d\d)/g)].map(([, said, status]) => said ?? status);
    // A client that closed its side may or may not have been answered; half a head never is.
    if (isLast) expect(found).toEqual(wanted);
    else if (found.at(-1) === "400") expect(found.slice(0, -1)).toEqual(wanted.slice(0, 3));
    else expect(found).toEqual(wanted.slice(0, found.length));
  }
  for (let round = 0; round < 10; round += 1) await Promise.all(Array.from({ length: 60 }, (_, i) => ask(i)));
});

const forged = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged";

it.each<[string, (socket: Socket | undefined) => unknown]>([
  ["ended", (socket) => socket?.destroy()],
  ["was reset", (socket) => socket?.resetAndDestroy()],
  ["sent bytes that nobody asked for", (socket) => socket?.write(forged)],
])("sends non-repeatable requests over no connection that %s in the same tick", async (_, spoil) => {
  const provider = await startProvider();
  const { data, proxyLines } = await startProxied(provider.port);
  const door = new URL(data);
  const caller = connect(Number(door.port), door.hostname);
  let text = "";
  caller.setEncoding("latin1").on("data", (piece) => {
    text += piece;
  });
  const ask = (method: string, body: string) => {
    text = "";
    const length = `Content-Length: ${body.length}\r\n`;
    caller.write(`${method} /proxy/x HTTP/1.1\r\nHost: localhost\r\n${proxyLines}${length}\r\n${body}`);
  };
  for (let i = 0; i < 20; i += 1) {
    ask("GET", "");
    await expect.poll(() => text).toContain("200 OK");
    spoil(provider.connections.at(-1)?.socket);
    ask("POST", "hi");
    await expect.poll(() => text).toContain("HTTP/1.1 ");
    expect(text).toContain("200 OK");
    expect(text).not.toContain("forged");
  }
  caller.destroy();
});
