import { type ChildProcess, spawn } from "node:child_process";
import { writeFileSync } from "node:fs";
import { Agent, request as askFor } from "node:http";
import { loadavg } from "node:os";
import { join } from "node:path";
import { createInterface, type Interface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { allowPrivateFor, describeProviders } from "../../src/sandbox/providers.ts";
import { openLoopApart } from "./open-loop.ts";
import { createTable } from "./proxy-table.ts";
import { secretKey, startBenchSidecar, withFolder } from "./sidecar-process.ts";

const provider = "sandbox-unified";
const unrelated = "sandbox-api-key";
const quietSeconds = 4;
const perSecond = 200;
const program = fileURLToPath(new URL("refresh-provider.ts", import.meta.url));

interface Token {
  readonly access_token: string;
  readonly refresh_token: string;
}

interface Said {
  readonly requests: number;
  readonly reused: number;
  readonly tokens: readonly Token[];
}

/**
 * Connections whose credentials run out in one second, and somebody who asks for each of them at that moment; beside
 * them, calls of a connection that has nothing to do with it, before and meanwhile. In rounds, each of both.
 */
export async function refresh(asked: number, askedRounds: number): Promise<void> {
  const count = asked || 1_000;
  const rounds = askedRounds || 5;
  await withFolder(async (folder) => {
    // Each in a process of its own: what one provider has to do is not to slow the other's answers down.
    const [sandbox, other] = await Promise.all([startProvider(), startProvider()]);
    const file = join(folder, "latchkey.yaml");
    const providers = [
      ...describeProviders(sandbox.origin).filter(({ name }) => name === provider),
      ...describeProviders(other.origin).filter(({ name }) => name === unrelated),
    ];
    writeFileSync(file, JSON.stringify({ providers }));
    const env = {
      LATCHKEY_CONFIG: file,
      LATCHKEY_ALLOW_PRIVATE: [sandbox, other].map(({ origin }) => allowPrivateFor(origin)).join(","),
    };
    const running = await startBenchSidecar({ folder, env });
    const agent = new Agent({ keepAlive: true, maxSockets: 64 });
    const rest = caller(running.data, agent);
    const app = { type: "OAUTH2", client_id: "sandbox", client_secret: "sandbox-secret" };
    await rest("POST", "/integrations", { body: { unique_key: provider, provider, credentials: app } });
    await rest("POST", "/integrations", { body: { unique_key: unrelated, provider: unrelated } });
    const credentials = { type: "API_KEY", apiKey: "sandbox-api-key" };
    await rest("POST", "/connections", {
      body: { provider_config_key: unrelated, connection_id: "other", credentials },
    });
    const target = {
      port: Number(new URL(running.data).port),
      path: "/proxy/api/me",
      fields: [
        ["Authorization", `Bearer ${secretKey}`],
        ["Provider-Config-Key", unrelated],
      ] as const,
      ids: ["other"],
    };
    // The same calls without us: what the machine and the provider take, while all else goes on.
    const straight = {
      port: Number(new URL(other.origin).port),
      path: "/api/me",
      fields: [["X-Api-Key", "sandbox-api-key"]] as const,
      ids: ["other"],
    };
    const both = (seconds: number) =>
      Promise.all([target, straight].map((one) => openLoopApart(one, { perSecond, seconds })));
    await both(2);

    const columns = [
      "until all are fresh, s",
      "token requests",
      "calls that failed",
      "p50, ms",
      "p99, ms",
      "p99 without us, ms",
    ];
    const table = createTable(columns);
    for (let round = 0; round < rounds; round += 1) {
      const { tokens } = await sandbox.say(count);
      const runOutAt = Date.now() + Math.max(4_000, count * 4);
      await inLanes(tokens, 32, async ({ access_token, refresh_token }, i) => {
        const expires_at = new Date(runOutAt + (i * 1_000) / count).toISOString();
        const imported = { type: "OAUTH2", access_token, refresh_token, expires_at };
        await rest("POST", "/connections", {
          body: { provider_config_key: provider, connection_id: `c${i}`, credentials: imported },
        });
      });
      const [before, alone] = await both(quietSeconds);
      table.note("before", [undefined, undefined, before?.failed, before?.p50Ms, before?.p99Ms, alone?.p99Ms]);

      await sleep(Math.max(0, runOutAt - Date.now()));
      const { requests } = await sandbox.say(0);
      const meanwhile = both(quietSeconds);
      const since = performance.now();
      const statuses = await Promise.all(
        tokens.map(async (_, i) => {
          await sleep((i * 1_000) / count);
          const fields = { "Provider-Config-Key": provider, "Connection-Id": `c${i}` };
          return rest("GET", "/proxy/drive/v3/files?pageSize=1", { fields });
        }),
      );
      const seconds = (performance.now() - since) / 1_000;
      const [during, aloneToo] = await meanwhile;
      if (during === undefined || aloneToo === undefined) throw new Error("two loops have two outcomes");
      const after = await sandbox.say(0);
      if (after.reused > 0) throw new Error("a refresh token was used twice");
      const failed = statuses.filter((status) => status !== 200).length;
      table.note("meanwhile", [
        seconds,
        after.requests - requests,
        during.failed + failed,
        during.p50Ms,
        during.p99Ms,
        aloneToo.p99Ms,
      ]);
    }
    say(
      `${count} connections that run out within one second, each asked for once then; beside them ${perSecond} calls/s of another integration for ${quietSeconds} s, before and meanwhile; medians of ${rounds} rounds, load average ${loadavg()
        .map((one) => one.toFixed(1))
        .join(" ")}:\n`,
    );
    say(table.text({ peers: ["before"], compared: "p99, ms" }));
    agent.destroy();
    await running.stop();
    await Promise.all([sandbox.stop(), other.stop()]);
  });
}

interface Provider {
  readonly origin: string;
  /** So many consents, and what it has seen. */
  say(grants: number): Promise<Said>;
  stop(): Promise<void>;
}

async function startProvider(): Promise<Provider> {
  const child: ChildProcess = spawn(process.execPath, [program], { stdio: ["pipe", "pipe", "inherit"] });
  const { stdin, stdout } = child;
  if (stdin === null || stdout === null) throw new Error("the provider has no pipes");
  const lines = linesOf(createInterface({ input: stdout }));
  return {
    origin: await lines(),
    async say(grants) {
      stdin.write(`${grants}\n`);
      return JSON.parse(await lines()) as Said;
    },
    stop: () =>
      new Promise((resolve) => {
        child.once("exit", () => resolve());
        stdin.end();
      }),
  };
}

function linesOf(reader: Interface): () => Promise<string> {
  const iterator = reader[Symbol.asyncIterator]();
  return async () => {
    const { done, value } = await iterator.next();
    if (done === true) throw new Error("the provider ended");
    return value;
  };
}

interface Asking {
  readonly body?: unknown;
  readonly fields?: Readonly<Record<string, string>>;
}

/** Returns the status. */
function caller(data: string, agent: Agent) {
  return (method: string, path: string, { body, fields = {} }: Asking): Promise<number> =>
    new Promise((resolve, reject) => {
      const text = body === undefined ? undefined : JSON.stringify(body);
      const headers = {
        authorization: `Bearer ${secretKey}`,
        ...fields,
        ...(text === undefined
          ? {}
          : { "content-type": "application/json", "content-length": Buffer.byteLength(text) }),
      };
      const asked = askFor(`${data}${path}`, { agent, method, headers }, (response) => {
        const { statusCode = 0 } = response;
        response.resume().on("end", () => {
          if (method === "POST" && statusCode >= 300) reject(new Error(`${path}: ${statusCode}`));
          else resolve(statusCode);
        });
      });
      asked.on("error", reject).end(text);
    });
}

async function inLanes<T>(all: readonly T[], lanes: number, run: (one: T, i: number) => Promise<void>): Promise<void> {
  let next = 0;
  await Promise.all(
    Array.from({ length: lanes }, async () => {
      for (let i = next++; i < all.length; i = next++) await run(all[i] as T, i);
    }),
  );
}

const say = (line: string) => void process.stdout.write(`${line}\n`);
