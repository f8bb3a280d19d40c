import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { type Postgres, startPostgres } from "../support/postgres/postgres.ts";
import { temporaryFolder } from "../support/sidecar/harness.ts";
import { lacks } from "../support/sidecar/needs.ts";
import { launch, type Running } from "../support/sidecar/process.ts";
import { startBalancer } from "./balancer.ts";
import { startLoad } from "./load.ts";
import { fill, startSlowProvider } from "./slow-provider.ts";

const targetsOf = (running: Running) => {
  const ops = running.address("ops");
  return { data: { address: running.address("data"), ops }, control: { address: running.address("control"), ops } };
};

describe.skipIf(lacks("postgres"))("a rolling restart", () => {
  let server: Postgres;
  beforeAll(async () => {
    server = await startPostgres();
  });
  afterAll(() => server.stop());

  it("answers every request while each replica is replaced by another", { timeout: 120_000 }, async () => {
    const port = await startSlowProvider();
    const env = {
      LATCHKEY_STORE: server.storeUrl("rolling"),
      LATCHKEY_ALLOW_PRIVATE: `http://127.0.0.1:${port}`,
      LATCHKEY_DRAIN_DELAY: "1500ms",
      LATCHKEY_GRACE: "20s",
    };
    const data = await startBalancer({ noticeMs: 200 });
    const control = await startBalancer({ noticeMs: 200 });
    async function start(): Promise<Running> {
      const running = launch(["serve"], { folder: await temporaryFolder(), env });
      await running.says('"phase":"ready"');
      const targets = targetsOf(running);
      data.add(targets.data);
      control.add(targets.control);
      await expect.poll(() => data.isReady(targets.data) && control.isReady(targets.control)).toBe(true);
      rotation.push({ running, ...targets });
      return running;
    }
    const rotation: ({ readonly running: Running } & ReturnType<typeof targetsOf>)[] = [];
    await fill({ running: await start(), port });
    await start();
    const load = startLoad({ data: data.address, control: control.address, callers: 3 });
    onTestFinished(() => load.stop());
    await sleep(1_000);
    for (let replaced = 0; replaced < 2; replaced += 1) {
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
    expect(load.failed).toEqual([]);
    expect([...data.failures, ...control.failures]).toEqual([]);
    expect(load.movedOn()).toBeGreaterThan(0);
    for (const kind of ["read", "write", "proxy", "upload", "connect-node", "grpc-js"]) {
      expect(load.answered[kind], kind).toBeGreaterThan(50);
    }
  });
});
