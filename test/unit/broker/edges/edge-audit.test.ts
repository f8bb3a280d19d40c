import { expect, it } from "vitest";
import { createLog } from "../../../../src/base/log.ts";
import { createMetrics } from "../../../../src/base/metrics/metrics.ts";
import type { AuditEntry } from "../../../../src/broker/audit/audit.ts";
import { createEdgeAudit } from "../../../../src/broker/edges/edge-audit.ts";
import { EdgeStream } from "../../../../src/broker/edges/edge-stream.ts";

function prepared({ isAway = false } = {}) {
  const written: AuditEntry[] = [];
  const logged: string[] = [];
  const log = createLog({ level: "info", format: "json", write: (line) => void logged.push(line) });
  const audit = createEdgeAudit({
    audit: {
      async noteAll(entries) {
        if (isAway) throw new Error("the store is away");
        written.push(...entries);
      },
    },
    world: { now: Date.now, log, metrics: createMetrics() },
  });
  return { audit, written, logged };
}

const streamOf = (id: string): EdgeStream =>
  new EdgeStream({
    ...{ id, host: "pod-1", version: "1", environment: "dev", identity: "edges", proof: "key" },
    ...{
      appliesLimits: true,
      appliesTools: true,
      appliesPolicies: true,
      hasForwardProxy: false,
      proofEndsAtMs: undefined,
      connectedAtMs: 0,
    },
  });

it("notes at its end who is still connected, or left a moment ago", async () => {
  const { audit, written } = prepared();
  const [stays, left] = [streamOf("stays"), streamOf("left")];
  audit.connected(stays);
  audit.connected(left);
  audit.delivered(stays, "keyed/ada");
  audit.disconnected(left);
  await audit.close();
  // Its stream ends with the process.
  audit.disconnected(stays);
  expect(written.map(({ action, targets }) => `${action} ${targets?.join(" ")}`).sort()).toEqual([
    "edge.connect left pod-1",
    "edge.connect stays pod-1",
    "edge.deliver stays keyed/ada",
    "edge.disconnect left pod-1",
    "edge.disconnect stays pod-1",
  ]);
});

it("says how many entries are lost if the store is away at its end", async () => {
  const { audit, logged } = prepared({ isAway: true });
  audit.connected(streamOf("one"));
  await audit.close();
  expect(logged.map((line) => JSON.parse(line))).toMatchObject([{ level: "error", count: 2 }]);
});
