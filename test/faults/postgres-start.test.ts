/** A database that fails while latchkey starts, at each moment of the start. */
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { freePort, type Postgres, startPostgres } from "../support/postgres/postgres.ts";
import { openRelay, type RelayPlan } from "../support/postgres/relay.ts";
import { startTestSidecar, startUnmanaged, temporaryFolder } from "../support/sidecar/harness.ts";
import { lacks } from "../support/sidecar/needs.ts";

const outageMs = 400;
const atOnce = 8;

describe.skipIf(lacks("postgres"))("a database that fails during a start", () => {
  let server: Postgres;
  let schemas = 0;
  beforeAll(async () => {
    server = await startPostgres();
  });
  afterAll(() => server.stop());

  const newSchema = () => {
    schemas += 1;
    return `start_${schemas}`;
  };

  /** Starts over a relay that fails as planned and is repaired a moment later. Rejects if the start fails. */
  async function startOver(plan: RelayPlan, schema = newSchema()) {
    const relay = await openRelay(server.port, plan);
    const url = server.storeUrl(schema, { port: `${relay.port}`, application_name: schema });
    let isStarted = false;
    const mending = (async () => {
      while (!relay.hasFailed() && !isStarted) await sleep(5);
      await sleep(outageMs);
      relay.mend();
    })();
    try {
      const running = await startUnmanaged({ folder: await temporaryFolder(), env: { LATCHKEY_STORE: url } });
      isStarted = true;
      // If the failure comes only now, the connection recovers by itself.
      let { status } = await running.rest("GET", "/integrations");
      for (let i = 0; status !== 200 && i < 50; i += 1, await sleep(100)) {
        ({ status } = await running.rest("GET", "/integrations"));
      }
      await running.stop();
      return { status, connections: relay.connections, messages: relay.messages, logged: running.logged };
    } finally {
      isStarted = true;
      await mending;
      await relay.close();
    }
  }

  /** Runs each plan, several at a time. Returns the failures. */
  async function failuresOf(plans: readonly RelayPlan[], schema?: string): Promise<string[]> {
    const failures: string[] = [];
    const rest = [...plans];
    const work = async () => {
      for (let plan = rest.shift(); plan !== undefined; plan = rest.shift()) {
        try {
          const { status } = await startOver(plan, schema);
          if (status !== 200) failures.push(`${JSON.stringify(plan)}: ${status}`);
        } catch (error) {
          failures.push(`${JSON.stringify(plan)}: ${(error as Error).message}`);
        }
      }
    };
    await Promise.all(Array.from({ length: atOnce }, work));
    return failures;
  }

  const upTo = (count: number) => Array.from({ length: count }, (_, i) => i + 1);

  it("is waited for, whichever connection it fails with", async () => {
    const { connections } = await startOver({ fault: "cut" });
    expect(connections).toBeGreaterThan(2);
    const plans = upTo(connections).flatMap((atConnection) =>
      (["cut", "full"] as const).map((fault): RelayPlan => ({ fault, atConnection })),
    );
    expect(
      await failuresOf([...plans, { fault: "freeze", atConnection: 1 }, { fault: "freeze", atConnection: 2 }]),
    ).toEqual([]);
    // No half-open connection is left.
    const left = () =>
      server.query("select application_name from pg_stat_activity where application_name like 'start_%'");
    await expect.poll(left).toEqual([]);
  });

  it("is waited for, whichever statement it fails at", async () => {
    const { messages } = await startOver({ fault: "cut" });
    expect(messages).toBeGreaterThan(20);
    expect(await failuresOf(upTo(messages).map((atMessage) => ({ fault: "cut", atMessage })))).toEqual([]);
  }, 240_000);

  it("is awaited by a replica that finds an existing store", async () => {
    const schema = newSchema();
    const { messages } = await startOver({ fault: "cut" }, schema);
    const plans = upTo(Math.ceil(messages / 6)).map((n): RelayPlan => ({ fault: "cut", atMessage: n * 6 }));
    expect(await failuresOf(plans, schema)).toEqual([]);
  });

  it("is named by the probes, and is ready once the database takes more connections", async () => {
    const opsPort = await freePort();
    const relay = await openRelay(server.port, { fault: "full", atConnection: 3 });
    onTestFinished(() => relay.close());
    const ops = `http://127.0.0.1:${opsPort}`;
    const url = server.storeUrl(newSchema(), { port: `${relay.port}` });
    const starting = startTestSidecar({
      env: { LATCHKEY_STORE: url, LATCHKEY_OPS_LISTEN: `127.0.0.1:${opsPort}` },
    });
    const probe = async (path: string) => {
      const answer = await fetch(`${ops}${path}`).catch(() => undefined);
      return answer === undefined ? "" : `${answer.status} ${(await answer.text()).trim()}`;
    };
    const why = /^503 starting: PostgreSQL at 127\.0\.0\.1:\d+: sorry, too many clients already/;
    await expect.poll(() => probe("/readyz")).toMatch(why);
    expect(await probe("/startupz")).toMatch(why);
    expect(await probe("/livez")).toBe("200 ok");
    relay.mend();
    const running = await starting;
    expect(await probe("/readyz")).toBe("200 ok");
    expect(running.logged.filter((line) => line.includes("cannot be opened yet"))).toHaveLength(1);
  });
});
