import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, it } from "vitest";
import { LogService } from "../../../src/gen/latchkey/v1/log_pb.ts";
import { temporaryFolder } from "../../support/sidecar/harness.ts";
import { serveInProcess } from "../../support/sidecar/process.ts";
import { connect, createIntegration, restAt, revocations, startRevoking, tokensIn } from "./revoking.ts";

const soon = { interval: 20 };
const of = (id: string) => ({ more: { end_user: { id } } });

it("ends everything of an end user, and nothing of others", async () => {
  const { start, received } = await startRevoking();
  const { rest, client } = await start();
  await createIntegration(rest);
  await createIntegration(rest, "second");
  await connect(rest, "one", of("ada"));
  await connect(rest, "two", { key: "second", ...of("ada") });
  await connect(rest, "three", { more: { tags: { end_user_id: "ada" } } });
  await connect(rest, "other", of("bob"));
  const session = async (id: string) =>
    (await rest("POST", "/connect/sessions", { body: { end_user: { id } } })).body.data.token as string;
  const [hers, his] = [await session("ada"), await session("bob")];

  const report = await rest("DELETE", "/end-users/ada");
  expect(report.body).toMatchObject({ state: "done", connections: 3, connect_sessions: 1, end_user_id: "ada" });
  expect(report.body.revocations).toHaveLength(3);
  const left = (await rest("GET", "/connections")).body.connections as readonly { connection_id: string }[];
  expect(left.map(({ connection_id }) => connection_id)).toEqual(["other"]);
  const show = async (token: string) => (await rest("GET", "/connect/session", { key: token })).status;
  expect([await show(hers), await show(his)]).toEqual([401, 200]);
  await expect.poll(() => revocations(rest, "?end_user_id=ada&state=done"), soon).toHaveLength(3);
  expect(tokensIn(received).toSorted()).toEqual(["at-one", "at-three", "at-two", "rt-one", "rt-three", "rt-two"]);
  expect((await rest("GET", "/end-users/ada/deletion")).body.revocations).toMatchObject(
    Array.from({ length: 3 }, () => ({ state: "done" })),
  );
  const { events } = await client(LogService).listAuditEvents({ environment: "dev", action: "end_user" });
  expect(events.map(({ action }) => action)).toEqual(["end_user.deleted", "end_user.delete"]);
  // A repeated call finds nothing.
  expect((await rest("DELETE", "/end-users/ada")).body).toMatchObject({ state: "done", connections: 0 });
  expect((await rest("GET", "/end-users/eve/deletion")).status).toBe(404);
});

it("goes on after a kill -9, with exact counts", async () => {
  const { env, file } = await startRevoking();
  const folder = join(await temporaryFolder(), "store");
  await mkdir(folder);
  const config = join(await temporaryFolder(), "latchkey.yaml");
  await writeFile(config, file);
  const serve = () => serveInProcess({ folder, env: { ...env, LATCHKEY_CONFIG: config } });
  const first = await serve();
  const rest = restAt(first.address("data"));
  await createIntegration(rest);
  const count = 60;
  await Promise.all(Array.from({ length: count }, (_, i) => connect(rest, `c-${i}`, of("ada"))));
  const asked = rest("DELETE", "/end-users/ada").catch(() => undefined);
  const connectionsLeft = async () => (await rest("GET", "/connections")).body.connections.length as number;
  await expect.poll(connectionsLeft, { interval: 1 }).toBeLessThan(count);
  first.child.kill("SIGKILL");
  await first.exited;
  await asked;
  const second = await serve();
  const again = restAt(second.address("data"));
  const report = async () => (await again("GET", "/end-users/ada/deletion")).body;
  await expect.poll(report, soon).toMatchObject({ state: "done", connections: count });
  expect((await again("GET", "/connections")).body.connections).toEqual([]);
  await expect.poll(() => revocations(again, `?state=done&limit=${count}`), soon).toHaveLength(count);
});
