import { setTimeout as sleep } from "node:timers/promises";
import { expect, it } from "vitest";
import { expectUnharmed, serveAllDoors } from "../../support/sidecar/door-process.ts";
import { secretKey } from "../../support/sidecar/harness.ts";
import { dial, opening, requestBlock } from "../../support/wire/hostile-http2.ts";
import { flags, frame, frameTypes, grpcHead, literal, uint32 } from "../control-plane/frames.ts";

/** A PING is sent within a second or two, and answered within 20. */
const withinMs = 26_000;
const laterMs = 2_500;
const { endHeaders, endStream } = flags;
const pingHead = Buffer.concat([Buffer.from([0, 0, 8, frameTypes.ping, 0]), uint32(0)]);

interface Sending {
  readonly address: string;
  readonly bytes: Buffer;
  /** Sent repeatedly. */
  readonly drip?: Buffer;
  /** Sent once, after a pause. */
  readonly later?: Buffer;
  readonly answersPings?: boolean;
}

/** Returns whether the listener ended the connection. */
async function send({ address, bytes, drip, later, answersPings = false }: Sending): Promise<() => boolean> {
  const { socket } = await dial({ address });
  let isEnded = false;
  for (const event of ["end", "close"]) {
    socket.once(event, () => {
      isEnded = true;
    });
  }
  socket.on("data", (chunk: Buffer) => {
    const at = chunk.indexOf(pingHead);
    if (!answersPings || at === -1) return;
    const payload = chunk.subarray(at + pingHead.length, at + pingHead.length + 8);
    socket.write(frame("ping", { flags: flags.ack, payload }));
  });
  socket.write(bytes);
  if (later !== undefined) setTimeout(() => socket.write(later), laterMs);
  const dripping = setInterval(() => drip !== undefined && socket.writable && socket.write(drip), 500);
  socket.once("close", () => clearInterval(dripping));
  return () => isEnded;
}

/** A call that stays open: the health of the process, as it changes. */
const watching = Buffer.concat([
  opening,
  frame("headers", { stream: 1, flags: endHeaders, payload: grpcHead("/grpc.health.v1.Health/Watch") }),
  frame("data", { stream: 1, flags: endStream, payload: Buffer.alloc(5) }),
]);
const headWithoutEnd = frame("headers", { stream: 3, payload: requestBlock({ path: "/x" }) });
/** DATA of 16,000 bytes that arrives one byte at a time. */
const uploading = Buffer.concat([
  opening,
  frame("headers", {
    stream: 1,
    flags: endHeaders,
    payload: Buffer.concat([
      requestBlock({ path: "/connections" }),
      literal("authorization", `Bearer ${secretKey}`),
      literal("content-type", "application/json"),
    ]),
  }),
  Buffer.from([0, 0x3e, 0x80, 0, 0]),
  uint32(1),
]);

it("distinguishes a stalled session from a slow one", async () => {
  const running = await serveAllDoors();
  const control = running.address("control");
  const stuck = {
    "HEADERS without CONTINUATION": await send({ address: control, bytes: watching, later: headWithoutEnd }),
    "half of a HEADERS frame": await send({ address: control, bytes: watching, later: headWithoutEnd.subarray(0, 12) }),
  };
  const slow = {
    "an upload a byte at a time": await send({
      address: running.address("data"),
      bytes: uploading,
      drip: Buffer.from(" "),
    }),
    "window updates of a stream": await send({
      address: control,
      bytes: watching,
      drip: frame("windowUpdate", { stream: 1, payload: uint32(1) }),
      answersPings: true,
    }),
    "PRIORITY frames": await send({
      address: control,
      bytes: watching,
      drip: frame("priority", { stream: 1, payload: Buffer.from([0, 0, 0, 0, 1]) }),
      answersPings: true,
    }),
  };
  await sleep(withinMs);
  for (const [name, isEnded] of Object.entries(stuck)) expect([name, isEnded()]).toEqual([name, true]);
  for (const [name, isEnded] of Object.entries(slow)) expect([name, isEnded()]).toEqual([name, false]);
  await expectUnharmed(running, "slow and stuck clients");
});
