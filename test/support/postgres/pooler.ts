import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Client } from "pg";
import { onTestFinished } from "vitest";
import { freePort, handOver, servantFolder, startServer } from "./postgres.ts";

/** PgBouncer before a server, lending its connections for a transaction each. It ends with the test. */
export async function startPooler(
  target: number,
  asked?: number,
): Promise<{ readonly port: number; stop(): Promise<void> }> {
  const folder = servantFolder();
  let isOver = false;
  let server: ReturnType<typeof startServer> | undefined;
  const stop = async () => {
    isOver = true;
    server?.signal("SIGKILL");
    await server?.ended;
    rmSync(folder, { recursive: true, force: true });
  };
  // Before anything is waited for: a test whose time runs out in here leaves nothing behind either.
  onTestFinished(stop);
  const port = asked ?? (await freePort());
  const file = join(folder, "pgbouncer.ini");
  const settings = {
    listen_addr: "127.0.0.1",
    listen_port: port,
    unix_socket_dir: "",
    auth_type: "any",
    pool_mode: "transaction",
    default_pool_size: 4,
  };
  writeFileSync(
    file,
    [
      "[databases]",
      `postgres = host=127.0.0.1 port=${target} user=postgres`,
      "[pgbouncer]",
      ...Object.entries(settings).map(([name, value]) => `${name} = ${value}`),
      "",
    ].join("\n"),
  );
  handOver(file);
  if (isOver) throw new Error("the test is over");
  server = startServer("pgbouncer", [file]);
  const isThere = await server.answers(async () => {
    const client = new Client({ host: "127.0.0.1", port, user: "postgres", database: "postgres", password: "-" });
    client.on("error", () => {});
    await client.connect();
    await client.end();
  });
  if (!isThere) throw new Error(`PgBouncer does not start: ${server.said()}`);
  return { port, stop };
}
