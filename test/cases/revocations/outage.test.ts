import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Postgres, startPostgres } from "../../support/postgres/postgres.ts";
import { temporaryFolder } from "../../support/sidecar/harness.ts";
import { lacks } from "../../support/sidecar/needs.ts";
import { serveInProcess } from "../../support/sidecar/process.ts";
import { connect, createIntegration, remove, restAt, revocations, startRevoking, tokensIn } from "./revoking.ts";

const withinAMinute = { timeout: 60_000, interval: 50 };

it("revokes after a kill -9, once the provider is back", async () => {
  const { env, file, received, state } = await startRevoking();
  const folder = join(await temporaryFolder(), "store");
  await mkdir(folder);
  const config = join(await temporaryFolder(), "latchkey.yaml");
  await writeFile(config, file);
  const serve = () => serveInProcess({ folder, env: { ...env, LATCHKEY_CONFIG: config } });
  const first = await serve();
  const rest = restAt(first.address("data"));
  await createIntegration(rest);
  for (const id of ["ada", "bob"]) await connect(rest, id);
  state.answer = "away";
  for (const id of ["ada", "bob"]) {
    expect((await remove(rest, id)).body).toMatchObject({ revocation: { state: "pending" } });
  }
  // The integration goes too: the task has what it needs.
  expect((await rest("DELETE", "/integrations/revoking")).status).toBe(200);
  await expect.poll(() => received.length, withinAMinute).toBeGreaterThan(0);
  first.child.kill("SIGKILL");
  await first.exited;

  const second = await serve();
  const again = restAt(second.address("data"));
  expect(await revocations(again, "?state=pending")).toHaveLength(2);
  received.length = 0;
  state.answer = "ok";
  await expect.poll(() => revocations(again, "?state=done"), withinAMinute).toHaveLength(2);
  expect(tokensIn(received).toSorted()).toEqual(["at-ada", "at-bob", "rt-ada", "rt-bob"]);
});

describe.skipIf(lacks("postgres"))("two replicas", () => {
  let server: Postgres;
  beforeAll(async () => {
    server = await startPostgres();
  });
  afterAll(() => server.stop());

  it("revoke once", async () => {
    const { start, received } = await startRevoking({ env: { LATCHKEY_STORE: server.storeUrl("revocations") } });
    const [one, two] = await Promise.all([start(), start()]);
    await createIntegration(one.rest);
    const ids = Array.from({ length: 10 }, (_, i) => `user-${i}`);
    for (const id of ids) await connect(one.rest, id);
    await Promise.all(ids.map((id, i) => remove(i % 2 === 0 ? one.rest : two.rest, id)));
    await expect.poll(() => revocations(two.rest, "?state=done"), { interval: 50 }).toHaveLength(10);
    expect(tokensIn(received).toSorted()).toEqual(ids.flatMap((id) => [`at-${id}`, `rt-${id}`]).toSorted());
  });
});
