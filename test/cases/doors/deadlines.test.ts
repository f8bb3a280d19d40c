import { setTimeout as sleep } from "node:timers/promises";
import { expect, it } from "vitest";
import {
  type DoorName,
  doorNames,
  expectUnharmed,
  openFiles,
  serveAllDoors,
  statusAt,
} from "../../support/sidecar/door-process.ts";
import { lacks } from "../../support/sidecar/needs.ts";
import type { Running } from "../../support/sidecar/process.ts";
import { dial, dialTcp, opening, requestBlock } from "../../support/wire/hostile-http2.ts";
import { flags, frame, literal, uint32 } from "../control-plane/frames.ts";

interface Silence {
  readonly doors: readonly DoorName[];
  readonly bytes: Buffer;
  /** Sent repeatedly, so that the connection is never idle. */
  readonly drip?: Buffer;
  /** Below TLS: the handshake never ends. */
  readonly isTcp?: true;
}

const two = ["data", "public", "control"] as const;
const head = frame("headers", { stream: 1, payload: requestBlock({ path: "/x" }) });
const ping = frame("ping", { payload: Buffer.alloc(8) });
const more = frame("continuation", { stream: 1, payload: literal("x", "y") });
/** A window of 0 bytes holds back every response, so that the stream stays open. */
const openStream = Buffer.concat([
  opening.subarray(0, 24),
  frame("settings", { payload: Buffer.concat([Buffer.from([0, 4]), uint32(0)]) }),
  frame("headers", {
    stream: 1,
    flags: flags.endHeaders | flags.endStream,
    payload: requestBlock({ method: "GET", path: "/nowhere" }),
  }),
]);
/** The head of a frame of 16,000 bytes. */
const longHead = Buffer.concat([Buffer.from([0, 0x3e, 0x80, 1, 0]), uint32(3)]);
const clientHello = Buffer.from("16030100c8010000c40303", "hex");

const silences: Readonly<Record<string, Silence>> = {
  "nothing said": { doors: doorNames, bytes: Buffer.alloc(0) },
  "half of a head": { doors: doorNames, bytes: Buffer.from("GET /nowhere HTTP/1.1\r\nHo") },
  "a head that drips": { doors: doorNames, bytes: Buffer.from("GET /nowhere HTTP/1.1\r\nx: "), drip: Buffer.from("x") },
  "half of the preface": { doors: two, bytes: opening.subarray(0, 12) },
  "the preface alone": { doors: two, bytes: opening.subarray(0, 24) },
  "the preface and SETTINGS": { doors: two, bytes: opening },
  "the preface, SETTINGS and PINGs": { doors: two, bytes: opening, drip: ping },
  "a head without its end": { doors: two, bytes: Buffer.concat([opening, head]) },
  "a head of HTTP/2 that drips": { doors: two, bytes: Buffer.concat([opening, head]), drip: more },
  "a head that drips beside an open stream": {
    doors: two,
    bytes: Buffer.concat([openStream, longHead]),
    drip: Buffer.from([0]),
  },
};
const handshakes: Readonly<Record<string, Silence>> = {
  "a handshake that does not begin": { doors: doorNames, bytes: Buffer.alloc(0), isTcp: true },
  "half of a handshake": { doors: doorNames, bytes: clientHello, isTcp: true },
};
/** 10 s for a handshake, the same for a head, a few for the client to close its side. */
const withinMs = 18_000;

it("closes stalled connections on every listener and over both protocols", async () => {
  const plain = await serveAllDoors();
  const secure = lacks("openssl") ? undefined : await serveAllDoors({ isTls: true });
  await Promise.all([
    expectEnded(plain, silences),
    secure === undefined ? undefined : expectEnded(secure, { ...silences, ...handshakes }),
  ]);
});

async function expectEnded(running: Running, all: Readonly<Record<string, Silence>>): Promise<void> {
  // The first requests make the process open files of its own.
  for (const door of doorNames) await statusAt(`${running.address(door)}/nowhere`);
  const open = new Set<string>();
  const begun = Object.entries(all).flatMap(([name, silence]) =>
    silence.doors.map((door) => begin({ address: running.address(door), about: `${door}: ${name}`, silence, open })),
  );
  const stops = await Promise.all(begun);
  // A connection that was made need not have been accepted yet.
  await sleep(3_000);
  const files = openFiles(running);
  await sleep(withinMs);
  // A busy machine closes them a little later.
  await expect.poll(() => [...open], { timeout: 10_000 }).toEqual([]);
  // No client has closed its side, and still the process holds none of the connections.
  expect(files - openFiles(running)).toBeGreaterThanOrEqual(stops.length);
  await expectUnharmed(running, "silence");
  for (const stop of stops) stop();
}

interface Beginning {
  readonly address: string;
  readonly about: string;
  readonly silence: Silence;
  /** Connections that the listener has not closed. */
  readonly open: Set<string>;
}

async function begin({ address, about, silence, open }: Beginning): Promise<() => void> {
  const { bytes, drip, isTcp } = silence;
  const isHttp2 = bytes.subarray(0, 3).equals(opening.subarray(0, 3));
  const { socket, tcp } = isTcp
    ? await dialTcp(address)
    : await dial({ address, protocols: [isHttp2 ? "h2" : "http/1.1"] });
  socket.write(bytes);
  open.add(about);
  for (const event of ["end", "close"]) socket.once(event, () => open.delete(about));
  const dripping = setInterval(() => drip !== undefined && socket.writable && socket.write(drip), 500);
  return () => {
    clearInterval(dripping);
    tcp.destroy();
  };
}
