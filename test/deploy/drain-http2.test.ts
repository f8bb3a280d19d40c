import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { type Postgres, startPostgres } from "../support/postgres/postgres.ts";
import { temporaryFolder } from "../support/sidecar/harness.ts";
import { lacks } from "../support/sidecar/needs.ts";
import { launch, type Running } from "../support/sidecar/process.ts";
import { startBalancer } from "./balancer.ts";
import { createFrameRecorder } from "./frame-recorder.ts";
import { startHttp2Load } from "./http2-load.ts";
import { fill, startSlowProvider } from "./slow-provider.ts";

/** `npm run faults:rolling` runs longer: six restarts of each of three replicas. */
const replicas = Number(process.env["LATCHKEY_ROLLING_REPLICAS"] ?? 1);
const restarts = Number(process.env["LATCHKEY_ROLLING_RESTARTS"] ?? 2);

interface Replica {
  readonly running: Running;
  readonly data: { readonly address: string; readonly ops: string };
  readonly control: { readonly address: string; readonly ops: string };
}

describe.skipIf(lacks("postgres"))("a rolling restart over HTTP/2", () => {
  let server: Postgres;
  beforeAll(async () => {
    server = await startPostgres();
  });
  afterAll(() => server.stop());

  it("refuses no request that is on the wire", { timeout: 60_000 + replicas * restarts * 30_000 }, async () => {
    const port = await startSlowProvider();
    const env = {
      LATCHKEY_STORE: server.storeUrl("rolling_http2"),
      LATCHKEY_ALLOW_PRIVATE: `http://127.0.0.1:${port}`,
      LATCHKEY_DRAIN_DELAY: "1500ms",
      LATCHKEY_GRACE: "20s",
    };
    const recorder = createFrameRecorder();
    const data = await startBalancer({ noticeMs: 200, onConnection: recorder.watch });
    const control = await startBalancer({ noticeMs: 200, onConnection: recorder.watch });
    const rotation: Replica[] = [];
    async function start(): Promise<Running> {
      const running = launch(["serve"], { folder: await temporaryFolder(), env });
      await running.says('"phase":"ready"');
      const ops = running.address("ops");
      const replica = {
        running,
        data: { address: running.address("data"), ops },
        control: { address: running.address("control"), ops },
      };
      data.add(replica.data);
      control.add(replica.control);
      await expect.poll(() => data.isReady(replica.data) && control.isReady(replica.control)).toBe(true);
      rotation.push(replica);
      return running;
    }
    await fill({ running: await start(), port });
    for (let more = 1; more < replicas; more += 1) await start();
    const load = startHttp2Load({ data: data.address, control: control.address, callers: 4, recorder });
    onTestFinished(() => load.stop());
    await sleep(500);
    for (let replaced = 0; replaced < replicas * restarts; replaced += 1) {
      await start();
      const old = rotation.shift();
      if (old === undefined) throw new Error("there is none to replace");
      old.running.child.kill("SIGTERM");
      expect(await old.running.exited).toBe(0);
      data.remove(old.data);
      control.remove(old.control);
    }
    await sleep(500);
    await load.stop();
    process.stdout.write(
      `${replicas * restarts} restarts: answered ${JSON.stringify(load.answered)}, taken back by the client's own ` +
        `library before anything was sent ${JSON.stringify(load.takenBack)}, failed ${load.failed.length}\n`,
    );
    expect(load.failed).toEqual([]);
    expect(recorder.refusedByServer()).toEqual([]);
    expect([...data.failures, ...control.failures]).toEqual([]);
    expect(recorder.goaways()).toBeGreaterThan(1);
    for (const kind of ["read", "proxy", "upload", "connect-node", "grpc-js"]) {
      expect(load.answered[kind], kind).toBeGreaterThan(50);
    }
  });
});
