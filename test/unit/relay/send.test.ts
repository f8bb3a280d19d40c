import { once } from "node:events";
import { createServer, type Socket } from "node:net";
import { expect, it, onTestFinished } from "vitest";
import { RequestFailed, type SendSmallRequest } from "../../../src/base/small-requests.ts";
import { createEgress } from "../../../src/relay/egress.ts";
import type { ResponseReceiver } from "../../../src/relay/response-receiver.ts";
import { createSend } from "../../../src/relay/send.ts";
import { createUpstream } from "../../../src/relay/upstream.ts";
import { type Answering, startProvider } from "../../support/peers/provider.ts";

const limits = { connectMs: 500, answerMs: 2_000, idleMs: 2_000, perOrigin: 1, waitingPerOrigin: 1 };

async function sending(answer: Answering = () => {}, more: Partial<typeof limits> = {}) {
  const provider = await startProvider(answer);
  const egress = createEgress({
    resolve: async () => [{ address: "127.0.0.1", family: 4 }],
    allowPrivate: [`http://127.0.0.1:${provider.port}`],
  });
  const upstream = createUpstream({ egress, limits: { ...limits, ...more }, extraCa: undefined });
  onTestFinished(() => upstream.destroy());
  return { provider, upstream, send: createSend(upstream), url: `https://127.0.0.1:${provider.port}/here?a=1` };
}

async function unanswered(asked: ReturnType<SendSmallRequest>): Promise<RequestFailed> {
  try {
    await asked;
  } catch (error) {
    if (error instanceof RequestFailed) return error;
    throw error;
  }
  throw new Error("there was an answer");
}

const post = (url: string) => ({ url, method: "POST", headers: { "x-a": "1" }, body: "a=1" });
const saying =
  (text: string): Answering =>
  (_, socket) =>
    void socket.write(text);

it("sends a request with its own framing, and returns the response", async () => {
  const { send, url, provider } = await sending(
    saying("HTTP/1.1 418 Teapot\r\nX-B: first\r\nx-b: second\r\nContent-Length: 2\r\n\r\nok"),
  );
  const headers = {
    "Content-Length": "99",
    "Transfer-Encoding": "chunked",
    Host: "evil.example",
    "X-A": "1",
    "User-Agent": "own",
  };
  const answer = await send({ ...post(url), headers, body: "böse" });
  expect([answer.status, answer.header("x-b"), answer.header("none"), answer.body.toString()]).toEqual([
    418,
    "first",
    undefined,
    "ok",
  ]);
  const [request] = provider.connections[0]?.requests() ?? [];
  expect(request?.line).toBe("POST /here?a=1 HTTP/1.1");
  expect(Object.fromEntries(request?.fields ?? [])).toEqual({
    host: `127.0.0.1:${provider.port}`,
    "user-agent": "own",
    "accept-encoding": "identity",
    "x-a": "1",
    "content-length": "5",
  });
});

it("follows no redirect", async () => {
  const { send, url, provider } = await sending(
    saying("HTTP/1.1 302 Found\r\nLocation: /else\r\nContent-Length: 0\r\n\r\n"),
  );
  expect(await send(post(url))).toMatchObject({ status: 302 });
  expect(provider.connections[0]?.requests()).toHaveLength(1);
});

const troubles: Readonly<Record<string, readonly [Answering, string, boolean, number | undefined]>> = {
  "nothing at all": [() => {}, "deadline", true, undefined],
  "half a head": [saying("HTTP/1.1 200 OK\r\nCont"), "deadline", true, undefined],
  "half a body": [saying("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"), "deadline", true, 200],
  "an end before a head": [(_, socket) => void socket.end(), "closed", true, undefined],
  "an end within a body": [
    (_, socket) => void socket.end("HTTP/1.1 500 No\r\nContent-Length: 9\r\n\r\nhalf"),
    "cut_off",
    true,
    500,
  ],
  "no HTTP": [saying("SSH-2.0-OpenSSH\r\n\r\n"), "malformed", true, undefined],
  "more than is allowed, announced": [saying("HTTP/1.1 200 OK\r\nContent-Length: 65\r\n\r\n"), "too_large", true, 200],
  "more than is allowed, in chunks": [
    saying(`HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n41\r\n${"x".repeat(65)}\r\n0\r\n\r\n`),
    "too_large",
    true,
    200,
  ],
  "more than is allowed, until it ends": [
    (_, socket) => void socket.end(`HTTP/1.1 200 OK\r\n\r\n${"x".repeat(65)}`),
    "too_large",
    true,
    200,
  ],
  "another encoding": [
    saying("HTTP/1.1 200 OK\r\nContent-Encoding: zstd\r\nContent-Length: 1\r\n\r\nx"),
    "malformed",
    true,
    200,
  ],
};
it.each(Object.entries(troubles))(
  "reports what it knows of %s",
  async (_, [answer, reason, mayHaveArrived, status]) => {
    const { send, url } = await sending(answer);
    const error = await unanswered(send(post(url), { deadlineMs: 300, maxBytes: 64 }));
    expect([error.reason, error.mayHaveArrived, error.status]).toEqual([reason, mayHaveArrived, status]);
  },
);

it("takes exactly as much as is allowed", async () => {
  const { send, url } = await sending(saying(`HTTP/1.1 200 OK\r\nContent-Length: 64\r\n\r\n${"x".repeat(64)}`));
  expect((await send(post(url), { maxBytes: 64 })).body).toHaveLength(64);
});

it("knows that nothing was sent before the connection was established", async () => {
  // Accepts the connection, and never starts TLS.
  const mute = createServer(() => {});
  await once(mute.listen(0, "127.0.0.1"), "listening");
  const { port } = mute.address() as { port: number };
  const sockets: Socket[] = [];
  mute.on("connection", (socket) => sockets.push(socket));
  onTestFinished(() => {
    mute.close();
    for (const socket of sockets) socket.destroy();
  });
  const egress = createEgress({ resolve: async () => [], allowPrivate: [`127.0.0.1:${port}`] });
  const upstream = createUpstream({ egress, limits: { ...limits, connectMs: 10_000 }, extraCa: undefined });
  onTestFinished(() => upstream.destroy());
  const send = createSend(upstream);
  const url = `https://127.0.0.1:${port}/`;
  const late = await unanswered(send(post(url), { deadlineMs: 200 }));
  expect([late.reason, late.mayHaveArrived]).toEqual(["deadline", false]);
  const leaving = new AbortController();
  setTimeout(() => leaving.abort(), 100);
  const left = await unanswered(send(post(url), { signal: leaving.signal }));
  expect([left.reason, left.mayHaveArrived]).toEqual(["left", false]);
  const dropped = unanswered(send(post(url)));
  setTimeout(() => {
    for (const socket of sockets) socket.resetAndDestroy();
  }, 100);
  expect((await dropped).mayHaveArrived).toBe(false);
  const nowhere = await unanswered(send(post("https://nowhere.example/")));
  expect([nowhere.reason, nowhere.mayHaveArrived]).toEqual(["unknown_host", false]);
  const none = await unanswered(send(post("ftp://nowhere.example/")));
  expect([none.reason, none.mayHaveArrived]).toEqual(["unsendable", false]);
});

it("reports a request as not sent if it only waited, or was one too many", async () => {
  const { send, url, provider } = await sending();
  const first = unanswered(send(post(url), { deadlineMs: 1_500 }));
  const second = unanswered(send(post(url)));
  const third = await unanswered(send(post(url)));
  expect([third.reason, third.mayHaveArrived]).toEqual(["overloaded", false]);
  const waited = await second;
  expect([waited.reason, waited.mayHaveArrived]).toEqual(["overloaded", false]);
  expect([(await first).reason, (await first).mayHaveArrived]).toEqual(["deadline", true]);
  expect(provider.connections.flatMap((one) => one.requests())).toHaveLength(1);
});

it("still knows it once the request was abandoned", async () => {
  const { upstream, provider } = await sending();
  const origin = upstream.admit({ scheme: "https", host: "127.0.0.1", port: provider.port });
  const head = `GET / HTTP/1.1\r\nhost: 127.0.0.1:${provider.port}\r\n\r\n`;
  const ignoring: ResponseReceiver = {
    onInformational() {},
    onHead() {},
    onContent: () => true,
    onEnd() {},
    onFailure() {},
    onDrain() {},
  };
  const exchange = upstream.send({ origin, method: "GET", head, body: "none" }, ignoring);
  expect(exchange.mayHaveArrived).toBe(false);
  await expect.poll(() => provider.received()).toBe(head);
  expect(exchange.mayHaveArrived).toBe(true);
  exchange.abort();
  expect(exchange.mayHaveArrived).toBe(true);
});

it("sends no field with a line break, and no plain HTTP unless allowed", async () => {
  const { send, url, provider } = await sending();
  for (const headers of [{ a: "1\r\nb: 2" }, { "a b": "1" }, { a: "☃" }]) {
    const error = await unanswered(send({ ...post(url), headers }));
    expect([error.reason, error.mayHaveArrived]).toEqual(["unsendable", false]);
  }
  const open = await unanswered(send(post("http://nowhere.example/")));
  expect([open.reason, open.mayHaveArrived]).toEqual(["address_forbidden", false]);
  expect(provider.connections).toEqual([]);
});
