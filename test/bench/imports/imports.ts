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
import {
  builtDist,
  deployedMemory,
  deployedOptions,
  secretKey,
  startBenchSidecar,
  withFolder,
} from "../sidecar-process.ts";
import { prepareBatches } from "./batches.ts";

interface ImportOptions {
  readonly count: number;
  readonly rounds: number;
  /** In batches of 1,000, four at a time, in place of the stream. */
  readonly isBatched: boolean;
  /** Another build of the sidecar (its `latchkey.js`), measured in turns. */
  readonly beside: string | undefined;
}

interface ImportCost {
  readonly perSecond: number;
  /** CPU of each connection, in microseconds. */
  readonly mainMicros: number;
  readonly allMicros: number;
  /** CPU of the client, this process: near the time between two connections, it is the limit. */
  readonly clientMicros: number;
}

/** Imports connections into an empty embedded store, through the stream or in batches: the rate, and the sidecar's CPU. */
export async function imports({ count, rounds, isBatched, beside }: ImportOptions): Promise<void> {
  const asked = count || 30_000;
  const ratios: number[] = [];
  const costs = { built: [] as ImportCost[], beside: [] as ImportCost[], work: [] as number[] };
  for (let round = 0; round < (rounds || 3); round += 1) {
    const before =
      beside === undefined ? undefined : await measure({ name: "beside", dist: beside, count: asked, isBatched });
    const now = await measure({ name: "built", dist: builtDist, count: asked, isBatched });
    costs.built.push(now);
    if (before !== undefined) costs.beside.push(before);
    costs.work.push(fixedWorkMs());
    if (before !== undefined) ratios.push(now.mainMicros / before.mainMicros);
  }
  record(isBatched ? "import in batches" : "import through the stream", costs);
  if (ratios.length === 0) return;
  const sorted = ratios.toSorted((a, b) => a - b).map((ratio) => ratio.toFixed(2));
  say(`CPU of the main thread, to that beside: median ${sorted[Math.floor(sorted.length / 2)]} (${sorted.join(", ")})`);
}

interface ImportCosts {
  readonly built: readonly ImportCost[];
  readonly beside: readonly ImportCost[];
  readonly work: readonly number[];
}

function record(way: string, { built, beside, work }: ImportCosts): void {
  const of = (costs: readonly ImportCost[], pick: (cost: ImportCost) => number) => costs.map(pick);
  recordFigure({
    name: `${way}, a connection`,
    unit: "µs of CPU",
    better: "lower",
    own: of(built, ({ allMicros }) => allMicros),
    peers: { "fixed work, ms": work, beside: of(beside, ({ allMicros }) => allMicros) },
  });
  recordFigure({
    name: way,
    unit: "connections/s",
    better: "higher",
    own: of(built, ({ perSecond }) => perSecond),
    peers: {
      "fixed work, runs/s": work.map((ms) => 1_000 / ms),
      beside: of(beside, ({ perSecond }) => perSecond),
    },
  });
}

interface Measured {
  readonly name: string;
  readonly dist: string;
  readonly count: number;
  readonly isBatched: boolean;
}

async function measure({ name, dist, count, isBatched }: Measured): Promise<ImportCost> {
  let cost: ImportCost | undefined;
  await withFolder(async (folder) => {
    const running = await startBenchSidecar({
      folder,
      dist,
      env: {
        ...deployedMemory,
        NODE_OPTIONS: process.env["PROF"] ?? deployedOptions,
      },
    });
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
    const send = isBatched
      ? prepareBatches({ control: running.control, count })
      : () => importAll(createClient(ConnectionService, transport), { count, integration });
    const mainCpu = () =>
      Number(readFileSync(`/proc/${running.pid}/task/${running.pid}/schedstat`, "utf8").split(" ")[0]) / 1e3;
    const [main, all, client, since] = [mainCpu(), cpuOf(running.pid), process.cpuUsage(), performance.now()];
    const failed = await send();
    if (failed > 0) throw new Error(`${failed} imports failed`);
    const own = process.cpuUsage(client);
    cost = {
      perSecond: count / ((performance.now() - since) / 1_000),
      mainMicros: (mainCpu() - main) / count,
      allMicros: ((cpuOf(running.pid) - all) * 1e6) / count,
      clientMicros: (own.user + own.system) / count,
    };
    const { perSecond, mainMicros, allMicros, clientMicros } = cost;
    say(
      `${name}: ${Math.round(perSecond)}/s; CPU of each ${mainMicros.toFixed(0)} µs in the main thread, ${allMicros.toFixed(0)} in all, ${clientMicros.toFixed(0)} of the client; load average ${loadAverage()}`,
    );
    await running.stop();
  });
  if (cost === undefined) throw new Error("nothing was measured");
  return cost;
}

const say = (line: string) => void process.stdout.write(`${line}\n`);
