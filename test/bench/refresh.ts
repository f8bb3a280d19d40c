import { writeFileSync } from "node:fs";
import { Agent, request as askFor } from "node:http";
import { loadavg } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { allowPrivateFor, describeProviders } from "../../src/dev/sandbox/providers.ts";
import { latencyOf, openLoopApart } from "./open-loop.ts";
import { startProvider, type Token } from "./provider-process.ts";
import type { Call } from "./proxy-load.ts";
import { createTable } from "./proxy-table.ts";
import { deployed, ms, secretKey, startBenchSidecar, withFolder } from "./sidecar-process.ts";

const provider = "sandbox-unified";
const unrelated = "sandbox-api-key";
const quietSeconds = 3;
const perSecond = 200;
/** The calls beside it begin so long before, and end with it. */
const warmSeconds = 0.5;
const longestSeconds = 20;

/** The outcome of work that ran beside calls. */
interface Ran {
  readonly seconds?: number;
  readonly requests?: number;
  readonly failed?: number;
}

const columns = [
  "until all are fresh, s",
  "token requests",
  "calls that failed",
  "p50, ms",
  "p99, ms",
  "p99 without us, ms",
  "loop late p99, ms",
  "loop late most, ms",
  "turn p99, CPU ms",
  "turn most, CPU ms",
  "collector most, ms",
  "thread busy, %",
  "without a core, %",
  "CPU, s",
];

/**
 * Credentials of many connections expire in the same second, and a caller needs each of them at that moment. Beside
 * them run calls of an unrelated connection, and the same calls straight to their provider. Three cases: no other work;
 * the bench itself requests as many tokens from the provider, so that the machine has the same load without latchkey;
 * and latchkey refreshes. Each round runs all three.
 */
export async function refresh(asked: number, askedRounds: number): Promise<void> {
  const count = asked || 1_000;
  const rounds = askedRounds || 5;
  await withFolder(async (folder) => {
    // Each in its own process, so that the work of one provider does not delay the other's responses.
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
      ...deployed,
    };
    const running = await startBenchSidecar({ folder, env, isProbed: true });
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
    // The same calls without latchkey: the share of the machine and the provider under the same load.
    const straight = {
      port: Number(new URL(other.origin).port),
      path: "/api/me",
      fields: [["X-Api-Key", "sandbox-api-key"]] as const,
      ids: ["other"],
    };
    const table = createTable(columns);
    const pooled = new Map<string, Call[]>();

    /** Measures the calls that ran beside `run`, and the event loop. */
    async function beside(name: string, run: () => Promise<Ran>): Promise<void> {
      const over = new AbortController();
      const rate = { perSecond, seconds: longestSeconds, signal: over.signal };
      const loops = Promise.all([target, straight].map((one) => openLoopApart(one, rate)));
      await sleep(warmSeconds * 1_000);
      await running.look();
      const from = Date.now();
      const { seconds, requests, failed = 0 } = await run();
      const until = Date.now();
      const loop = await running.look();
      over.abort();
      const [ours, straights] = await loops;
      if (ours === undefined || straights === undefined) throw new Error("two loops have two outcomes");
      const [calls, without] = [ours, straights].map((one) =>
        one.calls.filter(({ sentAtMs }) => sentAtMs >= from && sentAtMs < until),
      );
      pooled.set(name, [...(pooled.get(name) ?? []), ...(calls ?? [])]);
      table.note(name, [
        ...[seconds, requests, failed + ours.failed],
        ...[latencyOf(calls, 0.5), latencyOf(calls, 0.99), latencyOf(without, 0.99)],
        ...[loop.lateP99Ms, loop.lateMostMs, loop.turnP99Ms, loop.turnMostMs, loop.collectedMostMs],
        ...[(100 * loop.cpuMs) / loop.wallMs, (100 * loop.withoutCoreMs) / loop.wallMs, loop.cpuMs / 1_000],
      ]);
    }

    /** Calls `ask` for all tokens within one second. */
    async function storm(tokens: readonly Token[], ask: (token: Token, i: number) => Promise<number>): Promise<Ran> {
      const { requests: before } = await sandbox.say(0);
      const since = performance.now();
      const statuses = await Promise.all(
        tokens.map(async (token, i) => {
          await sleep((i * 1_000) / count);
          return ask(token, i);
        }),
      );
      const seconds = (performance.now() - since) / 1_000;
      const { requests, reused } = await sandbox.say(0);
      if (reused > 0) throw new Error("a refresh token was used twice");
      return { seconds, requests: requests - before, failed: statuses.filter((status) => status !== 200).length };
    }

    async function inStore(tokens: readonly Token[]): Promise<void> {
      const runOutAt = Date.now() + Math.max(2_000, count * 2);
      const expires_at = new Date(runOutAt).toISOString();
      await inLanes(tokens, 32, async ({ access_token, refresh_token }, i) => {
        const imported = { type: "OAUTH2", access_token, refresh_token, expires_at };
        await rest("POST", "/connections", {
          body: { provider_config_key: provider, connection_id: `c${i}`, credentials: imported },
        });
      });
      await sleep(Math.max(0, runOutAt - Date.now()));
    }

    const renewHere = (_: Token, i: number) =>
      rest("GET", "/proxy/drive/v3/files?pageSize=1", {
        fields: { "Provider-Config-Key": provider, "Connection-Id": `c${i}` },
      });
    const renewElsewhere = elsewhere(sandbox.origin);

    for (let round = 0; round < rounds; round += 1) {
      // In the first round nothing is compiled yet.
      const named = (name: string) => (round === 0 ? `the first time: ${name}` : name);
      await beside(named("before"), async () => {
        await sleep(quietSeconds * 1_000);
        return {};
      });
      const { tokens: others } = await sandbox.say(count);
      await beside(named("renewed by the bench"), () => storm(others, renewElsewhere));
      const { tokens } = await sandbox.say(count);
      await inStore(tokens);
      await beside(named("meanwhile"), () => storm(tokens, renewHere));
    }
    say(
      `${count} connections that run out within one second, each asked for once then; beside them ${perSecond} calls/s of another integration; medians of the rounds after the first, ${rounds} in all, load average ${loadavg()
        .map((one) => one.toFixed(1))
        .join(" ")}:\n`,
    );
    say(table.text({ peers: ["before", "renewed by the bench"], compared: "p99, ms" }));
    say("\nThe calls of these rounds together:\n");
    for (const [name, calls] of pooled) {
      const of = (share: number) => ms(latencyOf(calls, share));
      say(`${name}: ${calls.length}, p50 ${of(0.5)}, p90 ${of(0.9)}, p99 ${of(0.99)}, most ${of(1)}`);
    }
    agent.destroy();
    await running.stop();
    await Promise.all([sandbox.stop(), other.stop()]);
  });
}

/** The requests that latchkey makes for each caller, without latchkey: a token over a new connection, and the call. */
function elsewhere(origin: string) {
  const agent = new Agent({ keepAlive: true, maxSockets: 64 });
  const app = Buffer.from("sandbox:sandbox-secret").toString("base64");
  return async ({ refresh_token }: Token): Promise<number> => {
    const body = new URLSearchParams({ grant_type: "refresh_token", refresh_token }).toString();
    const headers = { authorization: `Basic ${app}`, "content-type": "application/x-www-form-urlencoded" };
    const { text } = await answerTo({ url: `${origin}/oauth2/token`, method: "POST", headers, body });
    const { access_token } = JSON.parse(text) as Token;
    const authorization = `Bearer ${access_token}`;
    const { status } = await answerTo({
      ...{ url: `${origin}/drive/v3/files?pageSize=1`, method: "GET", agent },
      headers: { authorization },
    });
    return status;
  };
}

interface Asking {
  readonly body?: unknown;
  readonly fields?: Readonly<Record<string, string>>;
}

/** Returns the status. */
function caller(data: string, agent: Agent) {
  return async (method: string, path: string, { body, fields = {} }: Asking): Promise<number> => {
    const headers = {
      authorization: `Bearer ${secretKey}`,
      ...fields,
      ...(body === undefined ? {} : { "content-type": "application/json" }),
    };
    const text = body === undefined ? undefined : JSON.stringify(body);
    const { status } = await answerTo({ url: `${data}${path}`, method, headers, body: text, agent });
    if (method === "POST" && status >= 300) throw new Error(`${path}: ${status}`);
    return status;
  };
}

interface Question {
  readonly url: string;
  readonly method: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string | undefined;
  /** Absent: a new connection. */
  readonly agent?: Agent;
}

function answerTo({ url, method, headers, body, agent }: Question): Promise<{ status: number; text: string }> {
  const length = body === undefined ? {} : { "content-length": Buffer.byteLength(body) };
  return new Promise((resolve, reject) => {
    const asked = askFor(url, { agent: agent ?? false, method, headers: { ...headers, ...length } }, (response) => {
      const { statusCode: status = 0 } = response;
      let text = "";
      response.setEncoding("utf8").on("data", (chunk: string) => {
        text += chunk;
      });
      response.on("end", () => resolve({ status, text }));
    });
    asked.on("error", reject).end(body);
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
