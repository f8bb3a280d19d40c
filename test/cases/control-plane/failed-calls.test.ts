import { expect, it, onTestFinished } from "vitest";
import { createDoorGuard } from "../../../src/base/http/door-guard.ts";
import { describeListener, listen } from "../../../src/base/http/listener.ts";
import { createLog } from "../../../src/base/log.ts";
import { createMetrics } from "../../../src/base/metrics/metrics.ts";
import { createRareWarning } from "../../../src/base/rare-warning.ts";
import type { World } from "../../../src/base/world.ts";
import type { ServiceRoutes } from "../../../src/control-plane/server/method-handlers.ts";
import { createControlPort } from "../../../src/control-plane/server/port.ts";
import { ConnectionService } from "../../../src/gen/latchkey/v1/connection_pb.ts";
import { foreignClient } from "./foreign.ts";

/** A control port whose methods fail before they have answered. */
async function startFailing(routes: ServiceRoutes) {
  const lines: string[] = [];
  const log = createLog({ level: "error", format: "json", write: (line) => void lines.push(line) });
  const world: World = { now: Date.now, log, metrics: createMetrics() };
  const port = createControlPort({
    guard: createDoorGuard({ hosts: () => new Set(["127.0.0.1"]) }),
    maxMessageBytes: 1_000_000,
    maxHeadBytes: 16 * 1024,
    maxHeadLines: 200,
    tls: undefined,
    warn: createRareWarning(world),
    world,
  });
  port.serve({ routes, gate: () => {}, interceptors: [] });
  await listen(port.server, { kind: "tcp", host: "127.0.0.1", port: 0 });
  onTestFinished(async () => {
    port.destroy();
    await port.drain();
  });
  return { address: describeListener(port.server, false), lines, world };
}

const broken: ServiceRoutes = (router) => {
  const throwing = new Proxy(
    {},
    {
      get() {
        throw new Error("the method is broken");
      },
    },
  );
  router.service(ConnectionService, throwing);
};

it("answers a call that failed before its answer, by each protocol, and logs why", async () => {
  const { address, lines, world } = await startFailing(broken);
  const path = "latchkey.v1.ConnectionService/GetConnection";
  const called = foreignClient(address).unary(path, { id: "c" }, { key: "" });
  await expect(called).rejects.toMatchObject({ code: 2 });
  const response = await fetch(`${address}/${path}`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: "{}",
  });
  expect([response.status, await response.json()]).toEqual([
    500,
    { error: expect.objectContaining({ code: "internal" }) },
  ]);
  expect(lines.filter((line) => line.includes("the method is broken"))).toHaveLength(2);
  expect(await world.metrics.unhandled.get()).toMatchObject({ values: [{ value: 2 }] });
});
