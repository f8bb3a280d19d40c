import { readFileSync } from "node:fs";
import { createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { ConnectionService } from "../../../src/gen/latchkey/v1/connection_pb.ts";
import { IntegrationService } from "../../../src/gen/latchkey/v1/integration_pb.ts";
import { importAll, integration } from "../connections.ts";
import { cpuOf } from "../fleet/empty.ts";
import { loadAverage } from "../proxy-process.ts";
import { recordFigure } from "../score/figure.ts";
import { fixedWorkMs } from "../score/fixed-work.ts";
import { builtDist, deployedOptions, secretKey, startBenchSidecar, withFolder } from "../sidecar-process.ts";

interface ImportOptions {
  readonly count: number;
  readonly rounds: number;
  /** Another build of the sidecar (its `latchkey.js`), measured in turns. */
  readonly beside: string | undefined;
}

interface ImportCost {
  readonly perSecond: number;
  /** CPU of each connection, in microseconds. */
  readonly mainMicros: number;
  readonly allMicros: number;
}

/** Imports connections through the stream into an empty embedded store: the rate, and the sidecar's CPU. */
export async function imports({ count, rounds, beside }: ImportOptions): Promise<void> {
  const asked = count || 30_000;
  const ratios: number[] = [];
  const costs = { built: [] as ImportCost[], beside: [] as ImportCost[], work: [] as number[] };
  for (let round = 0; round < (rounds || 3); round += 1) {
    const before = beside === undefined ? undefined : await measure("beside", beside, asked);
    const now = await measure("built", builtDist, asked);
    costs.built.push(now);
    if (before !== undefined) costs.beside.push(before);
    costs.work.push(fixedWorkMs());
    if (before !== undefined) ratios.push(now.mainMicros / before.mainMicros);
  }
  record(costs);
  if (ratios.length === 0) return;
  const sorted = ratios.toSorted((a, b) => a - b).map((ratio) => ratio.toFixed(2));
  say(`CPU of the main thread, to that beside: median ${sorted[Math.floor(sorted.length / 2)]} (${sorted.join(", ")})`);
}

function record({
  built,
  beside,
  work,
}: {
  readonly built: readonly ImportCost[];
  readonly beside: readonly ImportCost[];
  readonly work: readonly number[];
}): void {
  const of = (costs: readonly ImportCost[], pick: (cost: ImportCost) => number) => costs.map(pick);
  recordFigure({
    name: "import through the stream, a connection",
    unit: "µs of CPU",
    better: "lower",
    own: of(built, ({ allMicros }) => allMicros),
    peers: { "fixed work, ms": work, beside: of(beside, ({ allMicros }) => allMicros) },
  });
  recordFigure({
    name: "import through the stream",
    unit: "connections/s",
    better: "higher",
    own: of(built, ({ perSecond }) => perSecond),
    peers: {
      "fixed work, runs/s": work.map((ms) => 1_000 / ms),
      beside: of(beside, ({ perSecond }) => perSecond),
    },
  });
}

async function measure(name: string, dist: string, count: number): Promise<ImportCost> {
  let cost: ImportCost | undefined;
  await withFolder(async (folder) => {
    const running = await startBenchSidecar({ folder, dist, env: { NODE_OPTIONS: deployedOptions } });
    const transport = createGrpcTransport({
      baseUrl: running.control,
      interceptors: [
        (next) => (request) => {
          request.header.set("authorization", `Bearer ${secretKey}`);
          return next(request);
        },
      ],
    });
    await createClient(IntegrationService, transport).createIntegration({
      integration: { key: integration, provider: "example-api-key" },
    });
    const mainCpu = () =>
      Number(readFileSync(`/proc/${running.pid}/task/${running.pid}/schedstat`, "utf8").split(" ")[0]) / 1e3;
    const [main, all, since] = [mainCpu(), cpuOf(running.pid), performance.now()];
    const failed = await importAll(createClient(ConnectionService, transport), { count, integration });
    if (failed > 0) throw new Error(`${failed} imports failed`);
    cost = {
      perSecond: count / ((performance.now() - since) / 1_000),
      mainMicros: (mainCpu() - main) / count,
      allMicros: ((cpuOf(running.pid) - all) * 1e6) / count,
    };
    const { perSecond, mainMicros, allMicros } = cost;
    say(
      `${name}: ${Math.round(perSecond)}/s; CPU of each ${mainMicros.toFixed(0)} µs in the main thread, ${allMicros.toFixed(0)} in all; load average ${loadAverage()}`,
    );
    await running.stop();
  });
  if (cost === undefined) throw new Error("nothing was measured");
  return cost;
}

const say = (line: string) => void process.stdout.write(`${line}\n`);
