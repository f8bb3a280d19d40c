import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { expect, it } from "vitest";
import { createLog } from "../../../src/base/log.ts";
import { createMetrics } from "../../../src/base/metrics/metrics.ts";
import { Emptying_State, EnvironmentService } from "../../../src/gen/latchkey/v1/environment_pb.ts";
import { LogService } from "../../../src/gen/latchkey/v1/log_pb.ts";
import { openBackend } from "../../../src/store/open.ts";
import { adminKey, temporaryFolder } from "../../support/sidecar/harness.ts";
import { serveInProcess } from "../../support/sidecar/process.ts";
import { connect, createIntegration, restAt, revocations, startRevoking, tokensIn } from "../revocations/revoking.ts";

const soon = { interval: 20 };
const done = Emptying_State.DONE;
const log = createLog({ level: "error", format: "json", write: () => {} });

/** Connects users of two teams; the last one of each ten by an integration of its own. */
const connectAll = (rest: Parameters<typeof connect>[0], count: number) =>
  Promise.all(
    Array.from({ length: count }, (_, i) =>
      connect(rest, `c-${i}`, {
        key: i % 10 === 9 ? "second" : "revoking",
        more: { tags: { team: `t${i % 2}` }, metadata: { n: i } },
      }),
    ),
  );

/** Returns how many keys a stopped store has in each space that names the environment, or all of connections. */
async function keysOf(folder: string, environment: string): Promise<Readonly<Record<string, number>>> {
  const backend = await openBackend({ kind: "level", folder }, { log, metrics: createMetrics() });
  const counts: Record<string, number> = {};
  const all = await backend.list({ from: "", to: "\u{10ffff}", limit: 1_000_000 });
  for (const { key } of all) {
    const [space = "", ...parts] = key.split("\0");
    if (parts.some((part) => part === environment || part.startsWith(`refresh/${environment}/`))) {
      counts[space] = (counts[space] ?? 0) + 1;
    }
  }
  await backend.close();
  return counts;
}

it("deletes all connections of one environment, with one audit event at the start and one at the end", async () => {
  const { start, received } = await startRevoking();
  const { rest, client, stop, folder } = await start();
  const environments = client(EnvironmentService);
  await createIntegration(rest);
  await createIntegration(rest, "second");
  await connectAll(rest, 450);
  await environments.createEnvironment({ name: "other" });
  const session = await rest("POST", "/connect/sessions", { body: { end_user: { id: "ada" } } });

  const { emptying } = await environments.emptyEnvironment({ name: "dev", keepGrant: true });
  expect(emptying).toMatchObject({ state: done, connections: 450n, connectSessions: 1n, revocations: 0n });
  expect((await environments.getEmptying({ name: "dev" })).emptying).toEqual(emptying);
  expect((await rest("GET", "/connections")).body.connections).toEqual([]);
  expect((await rest("GET", "/connections?tags[team]=t1")).body.connections).toEqual([]);
  expect((await rest("GET", "/connections/c-1?provider_config_key=revoking")).status).toBe(404);
  expect((await rest("GET", "/connect/session", { key: session.body.data.token })).status).toBe(401);
  expect(await revocations(rest)).toEqual([]);
  expect(received).toEqual([]);
  const { events } = await client(LogService).listAuditEvents({ environment: "dev", pageSize: 1_000 });
  const kinds = events.map(({ action }) => action);
  expect(kinds.slice(0, 2)).toEqual(["environment.emptied", "environment.empty"]);
  expect(kinds).not.toContain("connection.delete");

  // The integrations stay, and take the same IDs again.
  expect((await connect(rest, "c-1", { more: { tags: { team: "t1" } } })).status).toBe(201);
  expect((await rest("GET", "/connections?tags[team]=t1")).body.connections).toHaveLength(1);
  await environments.emptyEnvironment({ name: "dev", keepGrant: true });
  await stop();
  const left = Object.keys(await keysOf(folder, "dev"));
  expect(
    left.filter((space) => !/^(?:audit|log|integration|emptying|environment|signing|key|forward|notif)/.test(space)),
  ).toEqual([]);
});

it("queues the revocations of grants that are not kept", async () => {
  const { start, received } = await startRevoking();
  const { rest, client } = await start();
  await createIntegration(rest);
  await createIntegration(rest, "second");
  await connectAll(rest, 30);
  const { emptying } = await client(EnvironmentService).emptyEnvironment({ name: "dev" });
  expect(emptying).toMatchObject({ state: done, connections: 30n, revocations: 30n });
  await expect.poll(() => revocations(rest, "?state=done&limit=100"), soon).toHaveLength(30);
  expect(new Set(tokensIn(received))).toContain("rt-c-1");
});

it("goes on after a kill -9, with exact counts", async () => {
  const { env, file } = await startRevoking();
  const folder = join(await temporaryFolder(), "store");
  await mkdir(folder);
  const config = join(await temporaryFolder(), "latchkey.yaml");
  await writeFile(config, file);
  const serve = () =>
    serveInProcess({ folder, env: { ...env, LATCHKEY_CONFIG: config, LATCHKEY_ADMIN_KEY: adminKey } });
  const environmentsOf = (baseUrl: string) =>
    createClient(
      EnvironmentService,
      createGrpcTransport({
        baseUrl,
        interceptors: [
          (next) => (request) => {
            request.header.set("authorization", `Bearer ${adminKey}`);
            return next(request);
          },
        ],
      }),
    );
  const first = await serve();
  const rest = restAt(first.address("data"));
  await createIntegration(rest);
  await createIntegration(rest, "second");
  const count = 1_500;
  for (let at = 0; at < count; at += 300) await connectSome(rest, at, 300);
  const asked = environmentsOf(first.address("control"))
    .emptyEnvironment({ name: "dev" })
    .catch(() => undefined);
  const deletedBy = async (serving: typeof first) => {
    const report = await environmentsOf(serving.address("control"))
      .getEmptying({ name: "dev" })
      .catch(() => undefined);
    return Number(report?.emptying?.connections ?? 0);
  };
  await expect.poll(() => deletedBy(first), { interval: 1 }).toBeGreaterThan(0);
  first.child.kill("SIGKILL");
  await first.exited;
  await asked;
  const second = await serve();
  const report = async () => (await environmentsOf(second.address("control")).getEmptying({ name: "dev" })).emptying;
  await expect
    .poll(report, soon)
    .toMatchObject({ state: done, connections: BigInt(count), revocations: BigInt(count) });
  expect((await restAt(second.address("data"))("GET", "/connections")).body.connections).toEqual([]);
});

const connectSome = (rest: Parameters<typeof connect>[0], from: number, count: number) =>
  Promise.all(Array.from({ length: count }, (_, i) => connect(rest, `c-${from + i}`)));
