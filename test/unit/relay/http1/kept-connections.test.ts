import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { connect, createServer } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, it, onTestFinished } from "vitest";
import { RequestFailed, type SendSmallRequest } from "../../../../src/base/small-requests.ts";
import { createEgress, createTrustedEgress, type Egress } from "../../../../src/relay/egress.ts";
import { createSend } from "../../../../src/relay/send.ts";
import { createUpstream } from "../../../../src/relay/upstream.ts";
import { createAuthority, pem } from "../../../cases/control-plane/certificates.ts";
import { type Answering, type RecordingProvider, startProvider } from "../../../support/peers/provider.ts";
import { temporaryFolder } from "../../../support/sidecar/harness.ts";
import { lacks } from "../../../support/sidecar/needs.ts";

const limits = { connectMs: 1_000, answerMs: 2_000, idleMs: 2_000, perOrigin: 8, waitingPerOrigin: 8 };
const toThisMachine = async () => [{ address: "127.0.0.1", family: 4 }];
const maxBytes = 64 * 1024;

function sendBy(egress: Egress, extraCa?: string): SendSmallRequest {
  const upstream = createUpstream({ egress, limits, extraCa });
  onTestFinished(() => upstream.destroy());
  return createSend(upstream);
}

const trusted = (extraCa?: string) => sendBy(createTrustedEgress({ resolve: toThisMachine }), extraCa);

const ok: Answering = (_, socket) => void socket.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
const body = JSON.stringify({ type: "forward", who: "Ada Lövelace ☃" });
const post = (url: string) => ({ url, method: "POST", headers: { "content-type": "application/json" }, body });
const repeatable = (url: string) => ({ ...post(url), mayRepeat: true });
const at = ({ port }: RecordingProvider, path = "/hooks?a=1") => `http://127.0.0.1:${port}${path}`;
const all = ({ connections }: RecordingProvider) => connections.map((one) => one.requests().length);

async function unanswered(asked: ReturnType<SendSmallRequest>): Promise<RequestFailed> {
  const [outcome] = await Promise.allSettled([asked]);
  if (outcome?.status === "rejected" && outcome.reason instanceof RequestFailed) return outcome.reason;
  throw new Error("there was an answer, or no outcome of a request");
}

/** A relay that joins responses arriving within a moment into one write. */
async function startGathering(to: number): Promise<{ readonly port: number }> {
  const server = createServer({ allowHalfOpen: true }, (near) => {
    const far = connect({ port: to, host: "127.0.0.1", allowHalfOpen: true });
    const gathered: Buffer[] = [];
    let isEnd = false;
    const passOn = () => {
      const bytes = Buffer.concat(gathered.splice(0));
      if (isEnd) near.end(bytes);
      else near.write(bytes);
    };
    let soon: NodeJS.Timeout | undefined;
    const gather = () => {
      clearTimeout(soon);
      soon = setTimeout(passOn, 40);
    };
    far.on("data", (bytes: Buffer) => {
      gathered.push(bytes);
      gather();
    });
    far.on("end", () => {
      isEnd = true;
      gather();
    });
    near.pipe(far);
    for (const socket of [near, far]) socket.on("error", () => {});
    onTestFinished(() => {
      clearTimeout(soon);
      near.destroy();
      far.destroy();
    });
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  onTestFinished(() => void server.close());
  return server.address() as AddressInfo;
}

describe("a repeatable request", () => {
  it("reuses the connection of the POST before it, and gives any other its own", async () => {
    const app = await startProvider(ok);
    const send = trusted();
    for (let i = 0; i < 3; i += 1) expect((await send(repeatable(at(app)))).status).toBe(200);
    expect(all(app)).toEqual([3]);
    for (let i = 0; i < 2; i += 1) expect((await send(post(at(app)))).status).toBe(200);
    expect(all(app)).toEqual([3, 1, 1]);
  });

  it("sends it once more, with all of its body, when the connection turns out to be closed", async () => {
    // Answers the first request of a connection, and closes it without a response at the second.
    const seen = new Set<unknown>();
    const app = await startProvider((request, socket, count) => {
      if (seen.has(socket)) socket.destroy();
      else ok(request, socket, count);
      seen.add(socket);
    });
    const send = trusted();
    await send(repeatable(at(app)));
    expect((await send(repeatable(at(app)))).status).toBe(200);
    expect(all(app)).toEqual([2, 1]);
    const [, [again] = []] = app.connections.map((one) => one.requests());
    expect(Buffer.from(again?.body ?? "", "latin1").toString()).toBe(body);
    expect(again?.fields).toContainEqual(["content-length", String(Buffer.byteLength(body))]);
  });

  it("is sent when the other side closed the idle connection", async () => {
    const app = await startProvider(ok);
    const send = trusted();
    for (let i = 1; i <= 4; i += 1) {
      expect((await send(repeatable(at(app)))).status).toBe(200);
      // The close races the next request: it may come before, during or after it.
      app.connections.at(-1)?.socket.resetAndDestroy();
    }
    expect(all(app).reduce((sum, one) => sum + one, 0)).toBeGreaterThanOrEqual(4);
  });

  it("is repeated once, and reports that it may have arrived", async () => {
    let isGone = false;
    const app = await startProvider((request, socket, count) => {
      if (isGone) socket.destroy();
      else ok(request, socket, count);
    });
    const send = trusted();
    await send(repeatable(at(app)));
    isGone = true;
    const failure = await unanswered(send(repeatable(at(app))));
    expect([failure.reason, failure.mayHaveArrived, failure.status]).toEqual(["closed", true, undefined]);
    expect(all(app)).toEqual([2, 1]);
  });

  it("reports that it may have arrived, although the repeat found no server", async () => {
    const server = createServer((socket) => {
      let count = 0;
      socket.on("error", () => {});
      socket.on("data", () => {
        count += 1;
        if (count === 1) {
          socket.write("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        } else {
          server.close();
          socket.destroy();
        }
      });
    });
    await once(server.listen(0, "127.0.0.1"), "listening");
    onTestFinished(() => void server.close());
    const { port } = server.address() as AddressInfo;
    const send = trusted();
    await send(repeatable(`http://127.0.0.1:${port}/`));
    const failure = await unanswered(send(repeatable(`http://127.0.0.1:${port}/`)));
    expect([failure.reason, failure.mayHaveArrived]).toEqual(["refused", true]);
  });

  it("is not repeated over a new connection, or after the response started", async () => {
    const app = await startProvider((_, socket) => void socket.destroy());
    expect((await unanswered(trusted()(repeatable(at(app))))).reason).toBe("closed");
    expect(all(app)).toEqual([1]);

    let count = 0;
    const half = await startProvider((request, socket) => {
      count += 1;
      if (count === 1) ok(request, socket, 0);
      else socket.end("HTTP/1.1 500 No\r\nContent-Length: 9\r\n\r\nhalf");
    });
    const send = trusted();
    await send(repeatable(at(half)));
    const failure = await unanswered(send(repeatable(at(half))));
    expect([failure.reason, failure.status]).toEqual(["cut_off", 500]);
    expect(all(half)).toEqual([2]);
  });
});

describe("a non-repeatable request", () => {
  const following = (url: string) => ({ ...post(url), mayFollow: true });

  it("uses the connection of another such POST, and no other request does", async () => {
    const app = await startProvider(ok);
    const send = trusted();
    for (let i = 0; i < 3; i += 1) expect((await send(following(at(app)))).status).toBe(200);
    expect(all(app)).toEqual([3]);
    expect((await send({ url: at(app), method: "GET", headers: {} })).status).toBe(200);
    expect((await send(repeatable(at(app)))).status).toBe(200);
    expect((await send(post(at(app)))).status).toBe(200);
    expect(all(app)).toEqual([3, 2, 1]);
    // It is never answered by the bytes of another connection.
    expect((await send(following(at(app)))).status).toBe(200);
    expect(all(app)).toEqual([4, 2, 1]);
  });

  it("shares it with no request of another certificate", async () => {
    const app = await startProvider(ok);
    const send = trusted();
    const own = (name: string) => ({ clientCertificate: { certificate: name, privateKey: name } });
    for (const name of ["a", "b", "a"]) await send({ ...following(at(app)), ...own(name) });
    expect(all(app)).toEqual([2, 1]);
  });

  it("takes a new one after a second, since the other side may have gone by then", async () => {
    const app = await startProvider(ok);
    const send = trusted();
    await send(following(at(app)));
    await sleep(1_050);
    await send(following(at(app)));
    expect(all(app)).toEqual([1, 1]);
  });

  it("is never repeated, and reports that it may have arrived", async () => {
    const app = await startProvider((request, socket, count) => {
      if (count === 0) ok(request, socket, count);
      else socket.destroy();
    });
    const send = trusted();
    await send(following(at(app)));
    const failure = await unanswered(send(following(at(app))));
    expect([failure.reason, failure.mayHaveArrived, failure.status]).toEqual(["closed", true, undefined]);
    expect(all(app)).toEqual([2]);
  });

  it("reports that it did not arrive if a new connection failed", async () => {
    const app = await startProvider(ok);
    const send = trusted();
    await send(following(at(app)));
    const nobody = createServer();
    await once(nobody.listen(0, "127.0.0.1"), "listening");
    const { port } = nobody.address() as AddressInfo;
    await new Promise((resolve) => nobody.close(resolve));
    const failure = await unanswered(send(following(`http://127.0.0.1:${port}/`)));
    expect([failure.reason, failure.mayHaveArrived]).toEqual(["refused", false]);
  });

  it("leaves a connection that its response closed, or that sent extra bytes", async () => {
    for (const text of [
      "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok",
      "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nKeep-Alive: timeout=1\r\n\r\nok",
      "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil",
    ]) {
      const app = await startProvider((_, socket) => void socket.write(text));
      const send = trusted();
      for (let i = 0; i < 2; i += 1) expect((await send(following(at(app)))).body.toString()).toBe("ok");
      expect(all(app)).toEqual([1, 1]);
    }
  });
});

describe("to the operator's own", () => {
  it("uses plain HTTP if the URL says so, to any address, with its path and query", async () => {
    const app = await startProvider(ok);
    const send = trusted();
    await send(repeatable(at(app, "/hooks/in?a=1&b=%20")));
    await send(repeatable(`http://app.internal:${app.port}/by-name`));
    const requests = app.connections.flatMap((one) => one.requests());
    expect(requests.map(({ line }) => line)).toEqual(["POST /hooks/in?a=1&b=%20 HTTP/1.1", "POST /by-name HTTP/1.1"]);
    expect(requests[1]?.fields).toContainEqual(["host", `app.internal:${app.port}`]);
  });

  it("goes nowhere of that by the ordinary way", async () => {
    const app = await startProvider(ok);
    const send = sendBy(createEgress({ resolve: toThisMachine, allowPrivate: [] }));
    for (const url of [at(app), `http://app.internal:${app.port}/`, `https://127.0.0.1:${app.port}/`]) {
      expect((await unanswered(send(repeatable(url)))).reason).toBe("address_forbidden");
    }
    const named = await unanswered(send(repeatable(`https://app.internal:${app.port}/`)));
    expect([named.reason, named.mayHaveArrived]).toEqual(["address_forbidden", false]);
    expect(app.connections).toEqual([]);
  });

  it("reports a name without addresses", async () => {
    const nowhere = sendBy(createTrustedEgress({ resolve: async () => [] }));
    expect((await unanswered(nowhere(post("http://app.internal/")))).reason).toBe("unknown_host");
    const unknown = sendBy(
      createTrustedEgress({ resolve: () => Promise.reject(Object.assign(new Error(), { code: "ENOTFOUND" })) }),
    );
    expect((await unanswered(unknown(post("http://app.internal/")))).reason).toBe("unknown_host");
  });

  it.skipIf(lacks("openssl"))("trusts the operator's authority, and no other certificate", async () => {
    const ca = await createAuthority(await temporaryFolder(), "authority");
    const own = ca.issue("app", { names: "DNS:app.internal" });
    const app = await startProvider(ok, { cert: pem(own.cert), key: pem(own.key) });
    const url = `https://app.internal:${app.port}/hooks`;
    const send = trusted(pem(ca.cert).toString());
    for (let i = 0; i < 2; i += 1) expect((await send(repeatable(url))).status).toBe(200);
    expect(all(app)).toEqual([2]);
    const other = await unanswered(send(repeatable(`https://127.0.0.1:${app.port}/hooks`)));
    expect([other.reason, other.mayHaveArrived]).toEqual(["untrusted", false]);
    expect((await unanswered(trusted()(repeatable(url)))).reason).toBe("untrusted");
  });

  it.skipIf(lacks("openssl")).each([
    ["of a known length", ["HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n", "abc", "def"]],
    ["cut within its head", ["HTTP/1.1 200 OK\r\nContent-Le", "ngth: 6\r\n\r\nabc", "def"]],
    ["in chunks", ["HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "3\r\nabc\r\n3\r\n", "def\r\n0\r\n\r\n"]],
    ["that ends with its connection", ["HTTP/1.1 200 OK\r\n\r\n", "abc", "def", "end"]],
    ["that ends with its connection in one piece", ["HTTP/1.1 200 OK\r\n\r\nabcdef", "end"]],
  ])("reads an answer %s, whose pieces come together", async (_what, pieces) => {
    const ca = await createAuthority(await temporaryFolder(), "authority");
    const own = ca.issue("app", { names: "DNS:app.internal" });
    const app = await startProvider(
      async (_, socket) => {
        // Each piece is its own TLS record, sent after the one before was written.
        for (const piece of pieces) {
          if (piece === "end") socket.end();
          else await new Promise((resolve) => socket.write(piece, resolve));
        }
      },
      { cert: pem(own.cert), key: pem(own.key) },
    );
    const { port } = await startGathering(app.port);
    const { body } = await trusted(pem(ca.cert).toString())(repeatable(`https://app.internal:${port}/`));
    expect(body.toString()).toBe("abcdef");
  });

  it.each([301, 302, 303, 307, 308])("follows no %d, and keeps its connection", async (status) => {
    const app = await startProvider(
      (_, socket) => void socket.write(`HTTP/1.1 ${status} Go\r\nLocation: /else\r\nContent-Length: 0\r\n\r\n`),
    );
    const send = trusted();
    for (let i = 0; i < 2; i += 1) expect((await send(repeatable(at(app)))).status).toBe(status);
    expect(app.connections.flatMap((one) => one.requests()).map(({ line }) => line)).toEqual(
      Array(2).fill("POST /hooks?a=1 HTTP/1.1"),
    );
  });
});

describe("of an answer that cannot be taken whole", () => {
  const large = "x".repeat(maxBytes + 1);
  it.each([
    ["announces", `HTTP/1.1 200 OK\r\nContent-Length: ${large.length}\r\n\r\n${large}`],
    ["sends in chunks", `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n10001\r\n${large}\r\n`],
  ])("knows the status of one that %s a byte too many, and ends the connection", async (_what, text) => {
    const app = await startProvider((_, socket) => void socket.write(text));
    const failure = await unanswered(trusted()(repeatable(at(app)), { maxBytes }));
    expect([failure.reason, failure.status, failure.mayHaveArrived]).toEqual(["too_large", 200, true]);
    await expect.poll(() => app.connections[0]?.socket.destroyed).toBe(true);
    expect(all(app)).toEqual([1]);
  });

  it("takes the last byte that is allowed, and keeps the connection", async () => {
    const just = "x".repeat(maxBytes);
    const app = await startProvider(
      (_, socket) => void socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${just.length}\r\n\r\n${just}`),
    );
    const send = trusted();
    for (let i = 0; i < 2; i += 1) {
      expect((await send(repeatable(at(app)), { maxBytes })).body).toHaveLength(maxBytes);
    }
    expect(all(app)).toEqual([2]);
  });

  it("knows the status of one that was promised ten bytes, and was closed before the first", async () => {
    const app = await startProvider((_, socket) => void socket.end("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n"));
    const failure = await unanswered(trusted()(repeatable(at(app))));
    expect([failure.reason, failure.status, failure.mayHaveArrived]).toEqual(["cut_off", 200, true]);
  });
});
