import { setTimeout as sleep } from "node:timers/promises";
import { it } from "vitest";
import { expectUnharmed, serveAllDoors } from "../../support/sidecar/door-process.ts";
import { secretKey } from "../../support/sidecar/harness.ts";
import { lacks } from "../../support/sidecar/needs.ts";
import { contradictions, dial, opening, type RequestFields } from "../../support/wire/hostile-http2.ts";

const proxied = { authorization: `Bearer ${secretKey}`, "provider-config-key": "here", "connection-id": "ada" };

const unary = { "content-type": "application/grpc" };
const requests: readonly (readonly [door: "data" | "public" | "control" | "ops", fields: RequestFields])[] = [
  ["data", { path: "/proxy/x", more: proxied }],
  ["data", { path: "/proxy/x", more: { ...proxied, authorization: "Bearer wrong" } }],
  ["data", { path: "/proxy/x" }],
  ["data", { path: "/health" }],
  ["data", { path: "/", authority: "evil.test" }],
  ["data", { path: "/some.Service/Call", more: { "content-type": "application/grpc" } }],
  ["data", { path: "/proxy/x", more: { ...proxied, expect: "100-continue" } }],
  ["public", { path: "/webhook/dev/here" }],
  ["public", { path: "/nowhere" }],
  ["control", { path: "/latchkey.v1.ConnectionService/ListConnections", more: { "content-type": "application/grpc" } }],
  ["control", { path: "/latchkey.v1.ConnectionService/ListConnections", more: { "content-type": "application/json" } }],
  ["control", { path: "/grpc.health.v1.Health/Check", more: { ...unary, expect: "100-continue" } }],
  ["control", { path: "/grpc.health.v1.Health/Check", more: { ...unary, expect: "something" } }],
  ["control", { path: "/grpc.health.v1.Health/Check", method: "CONNECT", more: unary }],
  ["data", { path: "/health", method: "CONNECT" }],
  ["data", { path: "/health", more: { expect: "something" } }],
  ["ops", { path: "/livez" }],
];

it.each([false, ...(lacks("openssl") ? [] : [true])])(
  "survives requests over HTTP/2 that contradict themselves, at every door (TLS: %s)",
  async (isTls) => {
    const running = await serveAllDoors({ isTls });
    for (const { name, writes } of contradictions) {
      await Promise.all(
        requests.map(async ([door, fields]) => {
          const { socket } = await dial({ address: running.address(door) });
          const [first = Buffer.alloc(0), ...later] = writes(fields);
          socket.write(Buffer.concat([opening, first]));
          for (const bytes of later) {
            await sleep(50);
            socket.write(bytes);
          }
          await sleep(100);
          socket.destroy();
        }),
      );
      await expectUnharmed(running, name);
    }
  },
);
