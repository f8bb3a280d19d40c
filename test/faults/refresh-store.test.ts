/**
 * One latchkey, a store in a folder, and a token request with a fault: a kill at any moment, or a disk that accepts
 * nothing when the answer arrives. Longer: LATCHKEY_FAULT_ROUNDS=50; other dice: LATCHKEY_FAULT_SEED=random, or a number.
 */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { allowPrivateFor, describeProviders } from "../../src/dev/sandbox/providers.ts";
import { type Started, started } from "../cases/sandbox/started.ts";
import { testProgram } from "../support/runner/program.ts";
import { faultSeed, seeded } from "../support/runner/seeded.ts";
import { startStopwatch } from "../support/runner/stopwatch.ts";
import { secretKey, temporaryFolder } from "../support/sidecar/harness.ts";
import { lacks } from "../support/sidecar/needs.ts";
import { launch } from "../support/sidecar/process.ts";
import { createFaultyDisk } from "./disk.ts";
import { useDiskShim } from "./shim.ts";

const rounds = Number(process.env["LATCHKEY_FAULT_ROUNDS"] ?? 3);
const program = testProgram("replica");
const provider = "sandbox-unified";

interface Serving {
  readonly folder: string;
  readonly sandbox: Started;
  readonly env?: Readonly<Record<string, string>>;
}

async function serve({ folder, sandbox, env = {} }: Serving) {
  const file = join(folder, "latchkey.yaml");
  writeFileSync(file, JSON.stringify({ providers: describeProviders(sandbox.origin) }));
  const running = launch([], {
    program,
    folder,
    env: {
      LATCHKEY_CONFIG: file,
      LATCHKEY_ALLOW_PRIVATE: allowPrivateFor(sandbox.origin),
      REFRESH_LEASE_MS: "600",
      ...env,
    },
  });
  await running.says('"phase":"ready"');
  const headers = { authorization: `Bearer ${secretKey}`, "content-type": "application/json" };
  const data = running.address("data");
  const rest = async (method: string, path: string, body?: unknown) => {
    const response = await fetch(`${data}${path}`, {
      method,
      headers,
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    // biome-ignore lint/suspicious/noExplicitAny: a test says itself what it expects of an answer.
    return { status: response.status, body: (await response.json()) as any };
  };
  const of = { "provider-config-key": provider, "connection-id": "ada" };
  /** A call by the proxy: its status, or our own error. */
  const call = async (): Promise<string> => {
    const response = await fetch(`${data}/proxy/drive/v3/files?pageSize=1`, { headers: { ...headers, ...of } });
    await response.arrayBuffer();
    return response.headers.get("latchkey-error") ?? `${response.status}`;
  };
  const put = async (tokens: { readonly access_token: string; readonly refresh_token: string }) => {
    const { access_token, refresh_token } = tokens;
    const expires_at = new Date(Date.now() - 60_000).toISOString();
    const credentials = { type: "OAUTH2", access_token, refresh_token, expires_at };
    return rest("POST", "/connections", { provider_config_key: provider, connection_id: "ada", credentials });
  };
  const app = { type: "OAUTH2", client_id: "sandbox", client_secret: "sandbox-secret" };
  const show = (query = "") => rest("GET", `/connections/ada?provider_config_key=${provider}${query}`);
  return {
    running,
    data,
    call,
    put,
    show,
    setUp: () => rest("POST", "/integrations", { unique_key: provider, provider, credentials: app }),
    async kill() {
      running.child.kill("SIGKILL");
      await running.exited;
    },
  };
}

describe("a process that is killed at any moment of a refresh", () => {
  it.each([0, 60])(
    "returns to a working connection, or reports the right reason if the answer was lost at a strict provider (grace of %i s)",
    { timeout: 60_000 + rounds * 6_000 },
    async (graceS) => {
      const seed = faultSeed();
      const random = seeded(seed);
      const sandbox = await started({ behaviour: { graceS } });
      const folder = await temporaryFolder();
      let latchkey = await serve({ folder, sandbox });
      await latchkey.setUp();
      const ends = { well: 0, lost: 0 };
      for (let round = 0; round < rounds; round += 1) {
        const what = `round ${round} of seed ${seed}, grace ${graceS}`;
        await latchkey.put(sandbox.grant());
        // Alternately before the intent, between the request and its answer, while the answer is written, and after it.
        const holdMs = [0, 15, 40][round % 3] ?? 0;
        sandbox.behave({ answers: { token: [{ kind: "ordinary", delayMs: 5, holdMs, times: 1 }] } });
        const before = sandbox.seen();
        const calling = latchkey.call().catch(() => "cut");
        await sleep(random() * (holdMs + 30));
        await latchkey.kill();
        await calling;
        const asked = (sandbox.seen().requests.token ?? 0) - (before.requests.token ?? 0);
        sandbox.behave({ answers: { token: [] } });
        latchkey = await serve({ folder, sandbox });
        // A lease of the dead one may still run.
        const answer = await latchkey.call();
        const after = sandbox.seen();
        const all = (after.requests.token ?? 0) - (before.requests.token ?? 0);
        const reused = after.tallies.supersededReused - before.tallies.supersededReused;
        // Never more than the request and its one retry.
        expect(all, what).toBeLessThanOrEqual(2);
        expect(reused, what).toBeLessThanOrEqual(graceS === 0 ? 1 : 0);
        if (reused === 0) {
          expect(answer, what).toBe("200");
          ends.well += 1;
        } else {
          expect([answer, asked, all], what).toEqual(["reauthorization_required", 1, 2]);
          const refused = await latchkey.call();
          expect(refused, what).toBe("reauthorization_required");
          expect((await latchkey.show("&credentials=false")).body.errors, what).toHaveLength(1);
          expect(latchkey.running.stdout(), what).toContain("rotation_response_lost");
          expect((sandbox.seen().requests.token ?? 0) - (before.requests.token ?? 0), what).toBe(2);
          ends.lost += 1;
        }
      }
      console.log(`killed ${rounds} times, grace ${graceS} s, seed ${seed}:`, ends);
      expect(ends.well).toBeGreaterThan(0);
    },
  );
});

it("a process that is killed during a refresh and restarted sends a request at once: no other can hold its lease", async () => {
  const sandbox = await started({ behaviour: { graceS: 60 } });
  const folder = await temporaryFolder();
  const env = { REFRESH_LEASE_MS: "30000" };
  const first = await serve({ folder, sandbox, env });
  await first.setUp();
  await first.put(sandbox.grant());
  sandbox.behave({ answers: { token: [{ kind: "ordinary", holdMs: 60_000, times: 1 }] } });
  const calling = first.call().catch(() => "cut");
  await expect.poll(() => sandbox.seen().requests.token, { interval: 5 }).toBe(1);
  await first.kill();
  expect(await calling).toBe("cut");
  const second = await serve({ folder, sandbox, env });
  const elapsed = startStopwatch();
  expect(await second.call()).toBe("200");
  expect(elapsed.ms).toBeLessThan(15_000);
  expect(sandbox.seen().requests.token).toBe(2);
});

describe.skipIf(lacks("compiler"))("a store that refuses writes when the answer arrives", () => {
  const shim = useDiskShim();

  it("has the token once it accepts writes again; no second request is sent, and no caller waits", async () => {
    const sandbox = await started();
    const folder = await temporaryFolder();
    const disk = createFaultyDisk({ folder: join(folder, "store"), shim: shim() });
    const latchkey = await serve({ folder, sandbox, env: disk.env });
    await latchkey.setUp();
    const granted = sandbox.grant();
    await latchkey.put(granted);
    sandbox.behave({ answers: { token: [{ kind: "ordinary", holdMs: 500, times: 1 }] } });
    const first = latchkey.call();
    await expect.poll(() => sandbox.seen().requests.token, { interval: 5 }).toBe(1);
    disk.fail({ error: "EROFS", calls: ["write", "open", "sync"] });
    const elapsed = startStopwatch();
    expect(await first).toBe("store_unavailable");
    expect(elapsed.ms).toBeLessThan(20_000);
    // Long enough for several tries, of the callers and of the holder of the token.
    for (let i = 0; i < 30; i += 1) {
      const elapsed = startStopwatch();
      expect(await latchkey.call()).toBe("store_unavailable");
      expect(elapsed.ms).toBeLessThan(10_000);
      await sleep(100);
    }
    expect(sandbox.seen().requests.token).toBe(1);

    disk.heal();
    await expect.poll(() => latchkey.call()).toBe("200");
    expect(sandbox.seen().requests.token).toBe(1);
    const { credentials } = (await latchkey.show("&refresh_token=true")).body;
    expect(credentials.refresh_token).not.toBe(granted.refresh_token);
    // The token is durable: it outlives the process and is used next.
    await latchkey.kill();
    const again = await serve({ folder, sandbox });
    const kept = (await again.show("&refresh_token=true")).body.credentials;
    expect(kept.refresh_token).toBe(credentials.refresh_token);
    await again.put(kept);
    expect(await again.call()).toBe("200");
    expect(sandbox.seen().tallies.supersededReused).toBe(0);
  });

  it("sends no request while the store refuses writes: an intent must be written first", async () => {
    const sandbox = await started();
    const folder = await temporaryFolder();
    const disk = createFaultyDisk({ folder: join(folder, "store"), shim: shim() });
    const latchkey = await serve({ folder, sandbox, env: disk.env });
    await latchkey.setUp();
    await latchkey.put(sandbox.grant());
    disk.fail({ error: "EROFS", calls: ["write", "open", "sync"] });
    for (let i = 0; i < 10; i += 1) expect(await latchkey.call()).toBe("store_unavailable");
    expect(sandbox.seen().requests.token ?? 0).toBe(0);
    disk.heal();
    await expect.poll(() => latchkey.call()).toBe("200");
    expect(sandbox.seen().requests.token).toBe(1);
  });

  it("is stopped in the meantime: the token is stored if the store recovers in time", async () => {
    const sandbox = await started();
    const folder = await temporaryFolder();
    const disk = createFaultyDisk({ folder: join(folder, "store"), shim: shim() });
    const latchkey = await serve({ folder, sandbox, env: disk.env });
    await latchkey.setUp();
    await latchkey.put(sandbox.grant());
    sandbox.behave({ answers: { token: [{ kind: "ordinary", holdMs: 500, times: 1 }] } });
    const first = latchkey.call();
    await expect.poll(() => sandbox.seen().requests.token, { interval: 5 }).toBe(1);
    disk.fail({ error: "EROFS", calls: ["write", "open", "sync"] });
    expect(await first).toBe("store_unavailable");
    latchkey.running.child.kill("SIGTERM");
    await sleep(2_500);
    disk.heal();
    expect(await latchkey.running.exited).toBe(0);
    const again = await serve({ folder, sandbox });
    expect(await again.call()).toBe("200");
    expect(sandbox.seen().requests.token).toBe(1);
  });
});
