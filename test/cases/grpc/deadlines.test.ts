import http from "node:http";
import http2 from "node:http2";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, it, onTestFinished } from "vitest";
import { expectUnharmed, serveAllDoors } from "../../support/sidecar/door-process.ts";
import { adminKey, secretKey } from "../../support/sidecar/harness.ts";

/** A request whose body stops; some continue one byte at a time. */
interface Unfinished {
  readonly path: string;
  readonly type: string;
  readonly key?: string;
  readonly sent?: Buffer;
  readonly isDripping?: true;
}

interface Outcome {
  status?: number;
  fault?: string | undefined;
  /** The stream, or over HTTP/1.1 the connection, is over. */
  isOver: boolean;
}

const half = Buffer.from([0, 0, 0, 0, 9, 1]);
const check = "/grpc.health.v1.Health/Check";
const list = "/latchkey.v1.ConnectionService/ListConnections";
const importing = "/latchkey.v1.ConnectionService/StreamImportConnections";
const reflecting = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
const [grpc, proto, json] = ["application/grpc", "application/proto", "application/json"];

const heads = ({ type, key }: Unfinished) => ({
  "content-type": type,
  ...(type === grpc && { te: "trailers" }),
  ...(key !== undefined && { authorization: `Bearer ${key}` }),
});

function dripInto(write: () => void, over: (stop: () => void) => void): void {
  const dripping = setInterval(write, 500);
  const stop = () => clearInterval(dripping);
  over(stop);
  onTestFinished(stop);
}

/** Over HTTP/2; the session answers PINGs, as Node's sessions do. */
function overHttp2(address: string, unfinished: Unfinished): Outcome {
  const { path, sent = half, isDripping } = unfinished;
  const session = http2.connect(address);
  onTestFinished(() => session.destroy());
  const stream = session.request({ ":method": "POST", ":path": path, ...heads(unfinished) }, { endStream: false });
  const outcome: Outcome = { isOver: false };
  const note = (headers: http2.IncomingHttpHeaders) => {
    outcome.status ??= Number(headers[":status"]);
    const fault = headers["latchkey-error"];
    if (typeof fault === "string") outcome.fault = fault;
  };
  stream
    .on("response", note)
    .on("trailers", note)
    .on("error", () => {});
  stream.once("close", () => {
    outcome.isOver = true;
  });
  stream.resume().write(sent);
  if (isDripping)
    dripInto(
      () => stream.writable && stream.write("x"),
      (stop) => stream.once("close", stop),
    );
  return outcome;
}

function overHttp1(address: string, unfinished: Unfinished): Outcome {
  const { path, sent = half, isDripping } = unfinished;
  const outcome: Outcome = { isOver: false };
  const headers = { ...heads(unfinished), "content-length": 4_000 };
  const request = http.request(`${address}${path}`, { method: "POST", agent: false, headers }, (response) => {
    outcome.status = response.statusCode ?? 0;
    const fault = response.headers["latchkey-error"];
    if (typeof fault === "string") outcome.fault = fault;
    // gRPC-Web sends the status at the end of the body.
    response.setEncoding("latin1").on("data", (text: string) => {
      outcome.fault ??= /^latchkey-error: (\w+)/im.exec(text)?.[1] ?? "";
    });
  });
  request.on("error", () => {});
  request.once("socket", (socket) => {
    socket.once("close", () => {
      outcome.isOver = true;
    });
  });
  onTestFinished(() => void request.destroy());
  request.write(sent);
  if (isDripping)
    dripInto(
      () => void request.write("x"),
      (stop) => request.once("close", stop),
    );
  return outcome;
}

it("ends requests whose bodies stop, and no stream that waits by design", async () => {
  const running = await serveAllDoors();
  const [control, data, open] = [running.address("control"), running.address("data"), running.address("public")];
  const stopped = {
    "gRPC without a key": overHttp2(control, { path: check, type: grpc }),
    "gRPC without a key, a byte at a time": overHttp2(control, {
      path: check,
      type: grpc,
      sent: Buffer.from([0, 0, 0, 4, 0]),
      isDripping: true,
    }),
    "gRPC with a key": overHttp2(control, { path: list, type: grpc, key: adminKey }),
    "reflection without a key": overHttp2(control, { path: reflecting, type: grpc }),
    "gRPC-Web over HTTP/1.1": overHttp1(control, { path: check, type: "application/grpc-web+proto" }),
    "Connect over HTTP/2": overHttp2(control, { path: check, type: proto }),
    "Connect over HTTP/1.1": overHttp1(control, { path: check, type: proto }),
    "Connect with a key over HTTP/2": overHttp2(control, { path: list, type: json, key: adminKey }),
    "Connect with a key over HTTP/1.1": overHttp1(control, { path: list, type: json, key: adminKey }),
    "a JSON route over HTTP/1.1": overHttp1(data, { path: "/connections", type: json, key: secretKey }),
    "a JSON route over HTTP/2": overHttp2(data, { path: "/connections", type: json, key: secretKey }),
  };
  const refused = {
    "gRPC with a scope and no key": overHttp2(control, { path: list, type: grpc }),
    "Connect with a scope and no key over HTTP/2": overHttp2(control, { path: list, type: json }),
    "Connect with a scope and no key over HTTP/1.1": overHttp1(control, { path: list, type: json }),
    "a JSON route without a key over HTTP/1.1": overHttp1(data, { path: "/connections", type: json }),
    "a JSON route without a key over HTTP/2": overHttp2(data, { path: "/connections", type: json }),
    "no route of the public door over HTTP/2": overHttp2(open, { path: "/nowhere", type: json }),
    "no method of the control port over HTTP/2": overHttp2(control, { path: "/nowhere", type: grpc }),
  };
  const waiting = overHttp2(control, { path: importing, type: grpc, key: adminKey, sent: Buffer.alloc(5) });
  const slow = overHttp2(control, {
    path: list,
    type: grpc,
    key: adminKey,
    sent: Buffer.from([0, 0, 0, 4, 0]),
    isDripping: true,
  });
  const begun = performance.now();
  for (const [name, outcome] of Object.entries(refused)) {
    await expect.poll(() => outcome.isOver, { message: name }).toBe(true);
    expect([name, typeof outcome.fault]).toEqual([name, "string"]);
  }
  await sleep(36_000 - (performance.now() - begun));
  for (const [name, { isOver, fault }] of Object.entries(stopped)) {
    expect([name, isOver, fault]).toEqual([name, true, "request_timeout"]);
  }
  // An import waits for its caller; a body that makes progress is read.
  expect([waiting.isOver, slow.isOver]).toEqual([false, false]);
  await expectUnharmed(running, "unfinished bodies");
});
