import { spawnSync } from "node:child_process";
import { appendFileSync, rmSync, statfsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import {
  createIntegrations,
  keyedConnection,
  startTestSidecar,
  temporaryFolder,
} from "../../support/sidecar/harness.ts";
import { lacks } from "../../support/sidecar/needs.ts";

/** A folder on a small disk of its own. */
async function smallDisk(): Promise<string> {
  const folder = await temporaryFolder();
  const { status } = spawnSync("mount", ["-t", "tmpfs", "-o", "size=24m,mode=700", "tmpfs", folder]);
  if (status !== 0) throw new Error("the small disk could not be mounted");
  onTestFinished(() => void spawnSync("umount", ["-l", folder]));
  return folder;
}

it.skipIf(lacks("tmpfs"))(
  "R24 refuses writes while the disk is full, continues reading, and loses nothing acknowledged",
  async () => {
    const folder = await smallDisk();
    const running = await startTestSidecar({ folder });
    const { rest, ops, logged, metric } = running;
    await createIntegrations(running);
    const write = (id: string) =>
      rest("POST", "/connections", { body: keyedConnection(id, { metadata: { padding: "x".repeat(60_000) } }) });
    const acknowledged = ["before-0", "before-1"];
    for (const id of acknowledged) expect((await write(id)).status).toBe(201);
    const hot = () => rest("GET", "/connections/before-0?provider_config_key=keyed");
    expect((await hot()).status).toBe(200);

    const { bavail, bsize } = statfsSync(folder);
    const filler = join(folder, "filler");
    writeFileSync(filler, Buffer.alloc(bavail * bsize - 200_000));
    let refused: Awaited<ReturnType<typeof write>> | undefined;
    for (let i = 0; refused === undefined; i += 1) {
      const answer = await write(`filling-${i}`);
      if (answer.status === 201) acknowledged.push(`filling-${i}`);
      else refused = answer;
    }
    expect({ status: refused.status, code: refused.body.error.code }).toEqual({
      status: 503,
      code: "store_unavailable",
    });
    expect(Number(refused.headers.get("retry-after"))).toBeGreaterThan(0);
    expect(await metric("latchkey_store_writable")).toBe(0);

    // Waits until it has tried to recover and failed, or until it has seen the full disk before a write could fail. What
    // is left of the disk may be enough to reopen, and then for a smaller write: take it all.
    const hasFailed = async () => {
      appendFileSync(filler, Buffer.alloc(statfsSync(folder).bavail * bsize));
      if ((await write("rest")).status === 201) acknowledged.push("rest");
      return logged.some((line) => /could not reopen the store|stopped before the disk is full/.test(line));
    };
    await expect.poll(hasFailed).toBe(true);
    const at = "/connections/before-0?provider_config_key=keyed";
    const body = { connection_id: "before-0", provider_config_key: "keyed", metadata: { lost: true } };
    const attempts = [
      await write("too-late"),
      await rest("PATCH", at, { body: { tags: { a: "b" } } }),
      await rest("PATCH", "/connection/metadata", { body }),
      await rest("DELETE", at),
      await rest("POST", "/integrations", { body: { unique_key: "late", provider: "calendar" } }),
    ];
    for (const { status, headers } of attempts) {
      expect({ status, retries: headers.has("retry-after") }).toEqual({ status: 503, retries: true });
    }
    expect((await hot()).body).toMatchObject({ credentials: { apiKey: "key-of-before-0" }, tags: {} });
    expect((await rest("GET", "/providers/calendar")).status).toBe(200);
    const listed = await rest("GET", "/connections");
    expect(listed.status).toBe(200);
    expect((await fetch(`${ops}/livez`)).status).toBe(200);
    expect((await fetch(`${ops}/readyz`)).status).toBe(503);
    expect((await metric("latchkey_unhandled_errors_total")) ?? 0).toBe(0);

    rmSync(filler);
    await expect.poll(async () => (await write("after")).status, { interval: 100 }).toBe(201);
    acknowledged.push("after");
    expect((await fetch(`${ops}/readyz`)).status).toBe(200);
    const idsOf = async (rest: typeof running.rest): Promise<readonly string[]> =>
      (await rest("GET", "/connections")).body.connections.map((one: { connection_id: string }) => one.connection_id);
    expect(await idsOf(rest)).toEqual(expect.arrayContaining(acknowledged));
    await running.stop();

    const again = await startTestSidecar({ folder });
    expect(await idsOf(again.rest)).toEqual(expect.arrayContaining(acknowledged));
    expect((await again.rest("GET", at)).body).toMatchObject({ metadata: { padding: expect.any(String) }, tags: {} });
  },
);
