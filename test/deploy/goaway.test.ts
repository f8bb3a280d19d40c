import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { createAuthority } from "../cases/control-plane/certificates.ts";
import { flags, frame, frameTypes, grpcHead, literal, openFrames } from "../cases/control-plane/frames.ts";
import { secretKey, startTestSidecar, temporaryFolder } from "../support/sidecar/harness.ts";
import { lacks } from "../support/sidecar/needs.ts";

/** The frames that an HTTP/2 client reads when latchkey stops (RFC 9113, section 6.8). */

const highestStream = 2 ** 31 - 1;

const restRequest = (stream: number): Buffer => {
  const payload = Buffer.concat([
    // `:method: GET` and `:scheme: http` of the static table.
    Buffer.from([0x82, 0x86]),
    literal(":path", "/connections"),
    literal(":authority", "localhost"),
    literal("authorization", `Bearer ${secretKey}`),
  ]);
  return frame("headers", { stream, flags: flags.endHeaders | flags.endStream, payload });
};

const healthCheck = (stream: number): Buffer =>
  Buffer.concat([
    frame("headers", { stream, flags: flags.endHeaders, payload: grpcHead("/grpc.health.v1.Health/Check") }),
    frame("data", { stream, flags: flags.endStream, payload: Buffer.alloc(5) }),
  ]);

/** A client that counts answered streams. It answers PINGs up to the first GOAWAY, and later ones on request. */
async function openClient(address: string, request: (stream: number) => Buffer) {
  const goaways: { readonly lastStream: number; readonly code: number }[] = [];
  const answered: number[] = [];
  const pings: Buffer[] = [];
  let acknowledges = true;
  const peer = await openFrames(address, {}, ({ type, flags: set, stream, payload }) => {
    const isEnd = type === frameTypes.data || type === frameTypes.headers;
    if (isEnd && (set & flags.endStream) !== 0) answered.push(stream);
    if (type === frameTypes.goaway) {
      goaways.push({ lastStream: payload.readUInt32BE(0), code: payload.readUInt32BE(4) });
      acknowledges = false;
    }
    if (type !== frameTypes.ping || (set & flags.ack) !== 0) return;
    if (acknowledges) peer.send(frame("ping", { flags: flags.ack, payload }));
    else pings.push(Buffer.from(payload));
  });
  return {
    peer,
    goaways,
    answered,
    ask: (stream: number) => peer.send(request(stream)),
    isAnswered: (stream: number) => peer.until(() => answered.includes(stream)),
    isTold: () => peer.until(() => goaways.length > 0),
    answerPings() {
      acknowledges = true;
      for (const payload of pings.splice(0)) peer.send(frame("ping", { flags: flags.ack, payload }));
    },
  };
}

describe.each([
  ["data", restRequest],
  ["public", restRequest],
  ["control", healthCheck],
] as const)("a client of the %s listener", (door, request) => {
  it.each([
    ["while balancers notice", "400ms"],
    ["without a drain delay", "0s"],
  ])("has every stream served that it began before it read the last GOAWAY, %s", async (_when, delay) => {
    const env = { LATCHKEY_PUBLIC_LISTEN: "127.0.0.1:0", LATCHKEY_DRAIN_DELAY: delay, LATCHKEY_GRACE: "10s" };
    const { sidecar, stop } = await startTestSidecar({ env });
    const client = await openClient(sidecar.addresses[door] ?? "", request);
    client.ask(1);
    await client.isAnswered(1);
    const stopped = stop();
    // The second GOAWAY comes with the next stream that the client starts, or when the delay is over.
    if (delay !== "0s") client.ask(3);
    await client.isTold();
    expect(client.goaways).toEqual([{ lastStream: highestStream, code: 0 }]);
    client.ask(5);
    await client.isAnswered(5);
    client.ask(7);
    await client.isAnswered(7);
    expect(client.goaways).toHaveLength(1);
    client.answerPings();
    await client.peer.closed;
    await stopped;
    expect(client.answered).toEqual(delay === "0s" ? [1, 5, 7] : [1, 3, 5, 7]);
    expect(client.goaways.at(-1)).toEqual({ lastStream: 7, code: 0 });
    expect(client.peer.count("reset")).toBe(0);
  });

  it("is not waited for when it answers no PING", async () => {
    const env = { LATCHKEY_PUBLIC_LISTEN: "127.0.0.1:0", LATCHKEY_GRACE: "10s" };
    const { sidecar, stop, logged } = await startTestSidecar({ env });
    const client = await openClient(sidecar.addresses[door] ?? "", request);
    client.ask(1);
    await client.isAnswered(1);
    await stop();
    await client.peer.closed;
    expect(client.goaways.at(0)).toEqual({ lastStream: highestStream, code: 0 });
    expect(client.goaways.at(-1)).toEqual({ lastStream: 1, code: 0 });
    expect(logged.filter((line) => line.includes("the grace period is over"))).toEqual([]);
  });
});

it.skipIf(lacks("openssl"))("tells a client over TLS one round trip later which streams it may repeat", async () => {
  const authority = createAuthority(await temporaryFolder(), "authority");
  const { cert, key } = authority.issue("localhost", { names: "IP:127.0.0.1" });
  const { control, stop } = await startTestSidecar({
    env: { LATCHKEY_CONFIG: "/config", LATCHKEY_DRAIN_DELAY: "4s", LATCHKEY_GRACE: "10s" },
    files: {
      "/config": JSON.stringify({ tls: { control: { cert, key } } }),
      [cert]: readFileSync(cert, "utf8"),
      [key]: readFileSync(key, "utf8"),
    },
  });
  const client = await openClient(control, healthCheck);
  client.ask(1);
  await client.isAnswered(1);
  const stopped = stop();
  client.ask(3);
  await client.isTold();
  client.ask(5);
  client.answerPings();
  await client.peer.until(() => client.goaways.length > 1);
  // Not at the end of the drain delay: until then the client would wait for an answer that never comes.
  const other = await openClient(control, healthCheck);
  other.ask(1);
  await other.isAnswered(1);
  expect(other.answered).toEqual([1]);
  expect(client.goaways).toEqual([
    { lastStream: highestStream, code: 0 },
    { lastStream: 3, code: 0 },
  ]);
  await client.isAnswered(3);
  for (const { peer } of [client, other]) peer.socket.end();
  await stopped;
  expect(client.answered).toEqual([1, 3]);
});
