/** `latchkey edge` as an operator runs it: its configuration, its files, its signals. */
import { mkdir, rename, writeFile } from "node:fs/promises";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { parseEdgeConfig } from "../../../src/config/edges/edge-config.ts";
import { ConfigMistakes } from "../../../src/config/mistakes.ts";
import { startPlayedBroker } from "../../support/edges/played-broker.ts";
import { secretKey, temporaryFolder } from "../../support/sidecar/harness.ts";
import { launch } from "../../support/sidecar/process.ts";

const withoutStore = {
  LATCHKEY_STORE: undefined,
  LATCHKEY_SEAL_KEYS: undefined,
  LATCHKEY_SECRET_KEY: undefined,
  LATCHKEY_ADMIN_KEY: undefined,
  LATCHKEY_CONTROL_LISTEN: undefined,
};

it("exits with 78 and names all that is missing", async () => {
  const running = launch(["edge"], { folder: await temporaryFolder(), env: withoutStore });
  expect(await running.exited).toBe(78);
  expect(running.stderr()).toContain("LATCHKEY_BROKERS is required");
  expect(running.stderr()).toContain("an identity is required: LATCHKEY_BROKERS_KEY_FILE");
  expect(running.stdout()).toBe("");
});

it("exits with 78 and names all that is wrong", async () => {
  const folder = await temporaryFolder();
  const env = {
    ...withoutStore,
    LATCHKEY_BROKERS: "broker-1:3004,http://broker-2:3004/path",
    LATCHKEY_BROKERS_KEY_FILE: join(folder, "missing"),
    LATCHKEY_EDGE_MAX_CONNECTIONS: "many",
    LATCHKEY_EDGE_MAX_AWAY: "soon",
  };
  const running = launch(["edge"], { folder, env });
  expect(await running.exited).toBe(78);
  for (const part of ["LATCHKEY_BROKERS: entry 1", "LATCHKEY_BROKERS: entry 2", "LATCHKEY_BROKERS_KEY_FILE"])
    expect(running.stderr()).toContain(part);
  for (const name of ["LATCHKEY_EDGE_MAX_CONNECTIONS", "LATCHKEY_EDGE_MAX_AWAY"])
    expect(running.stderr()).toContain(`${name} must be`);
});

const right = { LATCHKEY_BROKERS: "https://brokers:3004", LATCHKEY_BROKERS_KEY: "lk_key-of-an-edge-in-tests" };
const noKey = { LATCHKEY_BROKERS_KEY: undefined };

it.each<[Readonly<Record<string, string | undefined>>, string]>([
  [{ LATCHKEY_BROKERS: undefined }, "LATCHKEY_BROKERS is required"],
  [{ LATCHKEY_BROKERS: "brokers:3004" }, "LATCHKEY_BROKERS: entry 1 must be http://host:port or https://host:port"],
  [{ LATCHKEY_BROKERS: "http://a:1,http://a:1" }, "LATCHKEY_BROKERS: http://a:1 is there twice"],
  [{ LATCHKEY_BROKERS: "http://user:password@a:1" }, "LATCHKEY_BROKERS: entry 1"],
  [{ LATCHKEY_BROKERS_DATA: "http://a:1/x" }, "LATCHKEY_BROKERS_DATA: entry 1"],
  [noKey, "an identity is required"],
  [{ LATCHKEY_BROKERS_TOKEN_FILE: "/token" }, "LATCHKEY_BROKERS_KEY and LATCHKEY_BROKERS_TOKEN_FILE are both set"],
  [{ ...noKey, LATCHKEY_BROKERS_TOKEN_FILE: "/missing" }, "LATCHKEY_BROKERS_TOKEN_FILE: "],
  [{ ...noKey, LATCHKEY_BROKERS_TOKEN_FILE: "/text" }, "holds no token (JWT)"],
  [{ ...noKey, LATCHKEY_BROKERS_KEY_FILE: "/missing" }, "LATCHKEY_BROKERS_KEY_FILE: "],
  [{ LATCHKEY_BROKERS_CA: "/text" }, "LATCHKEY_BROKERS_CA: /text holds no certificate in PEM"],
  [
    { LATCHKEY_BROKERS_CLIENT_CERT: "/text" },
    "LATCHKEY_BROKERS_CLIENT_CERT and LATCHKEY_BROKERS_CLIENT_KEY must be set",
  ],
  [{ LATCHKEY_EDGE_MAX_CONNECTIONS: "0" }, "LATCHKEY_EDGE_MAX_CONNECTIONS must be a number from 1 to 100000"],
  [{ LATCHKEY_EDGE_MAX_AWAY: "soon" }, "LATCHKEY_EDGE_MAX_AWAY"],
  [{ LATCHKEY_DATA_LISTEN: "nowhere" }, "LATCHKEY_DATA_LISTEN"],
  [{ LATCHKEY_GRACE: "1s", LATCHKEY_DRAIN_DELAY: "2s" }, "LATCHKEY_DRAIN_DELAY must be shorter than LATCHKEY_GRACE"],
])("refuses %j", (wrong, message) => {
  const env = Object.fromEntries(Object.entries({ ...right, ...wrong }).filter(([, value]) => value !== undefined));
  const files = {
    read(path: string) {
      if (path === "/text") return { text: "no secret", mode: 0o600 };
      throw Object.assign(new Error(path), { code: "ENOENT" });
    },
  };
  let mistakes: readonly string[] = [];
  try {
    parseEdgeConfig({ env: env as Record<string, string>, files });
  } catch (error) {
    if (!(error instanceof ConfigMistakes)) throw error;
    mistakes = error.mistakes;
  }
  expect(mistakes.join("\n")).toContain(message);
  expect(mistakes.join("\n")).not.toContain("password");
});

/** Answers at once, but to `/slow` only when the test says so. */
async function startProvider() {
  const held: ServerResponse[] = [];
  const server = createServer((request, response) => {
    if (request.url?.startsWith("/slow")) held.push(response);
    else response.end("{}");
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, held };
}

it("reads its key again on SIGHUP, and loses no request on SIGTERM", async () => {
  const provider = await startProvider();
  const broker = await startPlayedBroker(provider.url);
  broker.connections.set("ada", { token: "token-of-ada", version: "1" });
  broker.keys.set(secretKey, "own");
  const folder = await temporaryFolder();
  const keys = join(folder, "keys");
  await mkdir(keys);
  const key = join(keys, "edge");
  const writeKey = async (text: string) => {
    // At once, as a mounted secret is replaced.
    await writeFile(`${key}.new`, text, { mode: 0o600 });
    await rename(`${key}.new`, key);
  };
  await writeKey("lk_first-key-of-the-edge");
  const running = launch(["edge"], {
    folder,
    env: {
      ...withoutStore,
      LATCHKEY_BROKERS: broker.url,
      LATCHKEY_BROKERS_KEY_FILE: key,
      LATCHKEY_ALLOW_PRIVATE: provider.url,
      // Long enough for callers of a busy machine to notice.
      LATCHKEY_DRAIN_DELAY: "4s",
      LATCHKEY_GRACE: "40s",
    },
  });
  await running.says('"phase":"ready"');
  const [data, ops] = [running.address("data"), running.address("ops")];
  const call = async (path: string) => {
    const headers = { authorization: `Bearer ${secretKey}`, "provider-config-key": "keyed", "connection-id": "ada" };
    const response = await fetch(`${data}/proxy${path}`, { headers });
    await response.text();
    return response.status;
  };
  expect(await call("/")).toBe(200);
  expect(broker.authorizations).toEqual(["Bearer lk_first-key-of-the-edge"]);

  await writeKey("lk_second-key-of-the-edge");
  running.child.kill("SIGHUP");
  await expect.poll(() => broker.authorizations.at(-1)).toBe("Bearer lk_second-key-of-the-edge");
  await expect.poll(() => broker.count()).toBe(1);
  expect(await call("/")).toBe(200);

  // Callers go elsewhere once it says that it is not ready, and those that it has are answered.
  const slow = call("/slow");
  await expect.poll(() => provider.held.length).toBe(1);
  const statuses: number[] = [];
  const isReady = async () => (await fetch(`${ops}/readyz`)).status === 200;
  running.child.kill("SIGTERM");
  await Promise.all(
    Array.from({ length: 4 }, async () => {
      do statuses.push(await call("/"));
      while (await isReady());
    }),
  );
  for (const response of provider.held) response.end("{}");
  expect(await slow).toBe(200);
  expect(await running.exited).toBe(0);
  expect(statuses.length).toBeGreaterThan(0);
  expect(new Set(statuses)).toEqual(new Set([200]));
  expect(broker.count()).toBe(0);
  expect(running.stderr()).toBe("");
});
