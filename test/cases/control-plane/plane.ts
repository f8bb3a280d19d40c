import { onTestFinished } from "vitest";
import { createDoorGuard } from "../../../src/base/http/door-guard.ts";
import { describeListener, listen } from "../../../src/base/http/listener.ts";
import { createLog } from "../../../src/base/log.ts";
import { createMetrics } from "../../../src/base/metrics/metrics.ts";
import { createRareWarning } from "../../../src/base/rare-warning.ts";
import { createReadiness, type Readiness } from "../../../src/base/readiness.ts";
import type { World } from "../../../src/base/world.ts";
import { createControlPlane } from "../../../src/control-plane/plane.ts";

/** A control plane without a store, as a sidecar serves it while it starts. */
export interface YoungPlane {
  readonly address: string;
  readonly readiness: Readiness;
}

export async function startYoungPlane({ stallMs = 60_000 } = {}): Promise<YoungPlane> {
  const log = createLog({ level: "error", format: "json", write: () => {} });
  const world: World = { now: Date.now, log, metrics: createMetrics() };
  const readiness = createReadiness(() => {});
  const plane = createControlPlane({
    readiness,
    guard: createDoorGuard({ hosts: () => new Set(["localhost", "127.0.0.1"]) }),
    maxMessageBytes: 4 * 1024 * 1024,
    maxHeadBytes: 16 * 1024,
    maxHeadLines: 200,
    tls: undefined,
    warn: createRareWarning(world),
    world,
    shutdown: new AbortController().signal,
    stallMs,
  });
  await listen(plane.server, { kind: "tcp", host: "127.0.0.1", port: 0 });
  onTestFinished(async () => {
    plane.destroy();
    await plane.drain();
  });
  return { address: describeListener(plane.server, false), readiness };
}
