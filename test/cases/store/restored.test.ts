/** Refresh tokens that rotated after the backup: refused after a restore, and explained on every interface. */
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { runCli } from "../../../src/cli/program.ts";
import { Connection_State, ConnectionService } from "../../../src/gen/latchkey/v1/connection_pb.ts";
import { LogService } from "../../../src/gen/latchkey/v1/log_pb.ts";
import { startApplication } from "../../support/peers/application.ts";
import { postgresForFile } from "../../support/postgres/stores.ts";
import { adminKey, secretKey, type TestSidecar, temporaryFolder } from "../../support/sidecar/harness.ts";
import { lacks } from "../../support/sidecar/needs.ts";
import { provider, startRenewing } from "../../support/sidecar/renewing.ts";
import { memoryTerminal } from "../cli/memory-terminal.ts";

const hourMs = 3_600_000;
const ref = { environment: "dev", integration: provider, id: "ada" };

async function latchkey(...words: readonly string[]): Promise<string> {
  const terminal = memoryTerminal({ env: {}, isTerminal: false });
  expect(await runCli(words, terminal), terminal.err()).toBe(0);
  return terminal.out();
}

/** A backup of a connection that is refreshed once more afterwards, and the time of that refresh. */
async function backedUp() {
  let now = Date.now();
  const application = await startApplication();
  const renewing = await startRenewing({ now: () => now, env: { LATCHKEY_FORWARD_URL: application.url } });
  const { sidecar, sandbox, connectAda, get } = renewing;
  await connectAda();
  expect((await get()).status).toBe(200);
  const file = join(await temporaryFolder(), "backup");
  await latchkey("store", "backup", file, "--address", sidecar.control, "--key", adminKey);
  const takenAt = now;
  now += 2 * hourMs;
  expect((await get()).status).toBe(200);
  await sidecar.stop();
  now += 2 * hourMs;
  return { ...renewing, sandbox, file, takenAt, application, now: () => now };
}

const callOf = ({ data }: TestSidecar) =>
  fetch(`${data}/proxy/drive/v3/files`, {
    headers: { authorization: `Bearer ${secretKey}`, "provider-config-key": provider, "connection-id": "ada" },
  });

describe("a store that was restored from a backup", () => {
  const file = lacks("postgres") ? undefined : postgresForFile();
  const kinds = ["level", "postgres", "moved"] as const;

  it.each(kinds)("reports that the refresh token is from the backup (%s)", async (kind) => {
    if (kind === "postgres" && file === undefined) return;
    const all = await backedUp();
    const folder = await temporaryFolder();
    const level = `level:${folder}`;
    const store = kind === "postgres" && file !== undefined ? file.server.storeUrl(file.newSchema()) : level;
    await latchkey("store", "restore", all.file, "--to", store);
    const moved = `level:${await temporaryFolder()}`;
    if (kind === "moved") await latchkey("store", "move", "--from", store, "--to", moved);
    const env = { LATCHKEY_STORE: kind === "moved" ? moved : store };
    const restored = await all.beside({ folder: await temporaryFolder(), env, now: all.now });
    const response = await callOf(restored);
    expect([response.status, await response.text()]).toEqual([424, expect.stringContaining("restored_backup")]);

    const { connection } = await restored.client(ConnectionService).getConnection({ ref });
    expect(connection).toMatchObject({
      state: Connection_State.REAUTHORIZATION_REQUIRED,
      stateReason: "restored_backup",
    });
    const [error] = connection?.errors ?? [];
    const { log } = await restored.client(LogService).getLog({ environment: "dev", id: error?.logId ?? "" });
    const causes = (log?.lines ?? []).flatMap(({ fields }) => {
      const { cause, detail } = (fields ?? {}) as Record<string, string>;
      return cause === undefined ? [] : [[cause, detail]];
    });
    expect(causes[0]?.[0]).toBe("restored_backup");
    const [, restoredAt = "", backupAt = ""] =
      /restored on (\S+) from a backup of (\S+), /.exec(causes[0]?.[1] ?? "") ?? [];
    expect(Date.parse(backupAt)).toBe(all.takenAt);
    expect(Math.abs(Date.parse(restoredAt) - Date.now())).toBeLessThan(60_000);
    // One of several possible causes.
    expect(causes.map(([cause]) => cause)).toContain("revoked");

    const at = ["--address", restored.control, "--key", adminKey];
    expect(await latchkey("logs", error?.logId ?? "", "-e", "dev", ...at)).toContain("restored_backup");
    expect(await latchkey("connections", "list", "-e", "dev", "--state", "reauthorization_required", ...at)).toContain(
      "restored_backup",
    );
    // In PostgreSQL the backup has the lease of the former deliverer: it has to expire first.
    const forwards = await all.application.got(1, 30_000);
    const event = forwards.map(({ body }) => JSON.parse(body)).find(({ operation }) => operation === "refresh");
    expect(event).toMatchObject({ success: false, error: { type: "restored_backup" } });
  });

  it("does not report that for credentials of after the restore", async () => {
    const all = await backedUp();
    const folder = await temporaryFolder();
    await latchkey("store", "restore", all.file, "--to", `level:${folder}`);
    const restored = await all.beside({ folder, now: all.now });
    const { access_token, refresh_token } = all.sandbox.grant();
    const expires_at = new Date(all.now() - 60_000).toISOString();
    const credentials = { type: "OAUTH2", access_token, refresh_token, expires_at };
    const body = { provider_config_key: provider, connection_id: "ada", credentials };
    expect((await restored.rest("POST", "/connections", { body })).status).toBe(201);
    all.sandbox.revoke({ user: "ada@example.com" });
    const response = await callOf(restored);
    expect([response.status, await response.text()]).toEqual([424, expect.not.stringContaining("restored_backup")]);
    const { connection } = await restored.client(ConnectionService).getConnection({ ref });
    const [error] = connection?.errors ?? [];
    const { log } = await restored.client(LogService).getLog({ environment: "dev", id: error?.logId ?? "" });
    expect(JSON.stringify(log?.lines.map(({ fields }) => fields))).not.toContain("restored_backup");
  });
});
