/** A network that swallows packets between a replica and PostgreSQL, and ends no connection. */
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { ConnectionService } from "../../src/gen/latchkey/v1/connection_pb.ts";
import { ProviderService } from "../../src/gen/latchkey/v1/provider_pb.ts";
import { startApplication } from "../support/peers/application.ts";
import { startProvider } from "../support/peers/provider.ts";
import { type Postgres, startPostgres } from "../support/postgres/postgres.ts";
import { openWire } from "../support/postgres/wire.ts";
import { startStopwatch } from "../support/runner/stopwatch.ts";
import { keyedConnection, startTestSidecar, type TestSidecar } from "../support/sidecar/harness.ts";
import { lacks } from "../support/sidecar/needs.ts";

/** docs/store-and-backup.md promises about 4 s; the rest is for a busy machine. */
const noticedWithinMs = 10_000;
const recoverWithinMs = 10_000;
/** Longer than statements may take. */
const frozenMs = 11_000;
const connections = 400;

/** What became of a call. */
interface Outcome {
  readonly kind: string;
  readonly status: number;
  readonly headers: Headers;
}

interface Call {
  readonly kind: string;
  readonly from: number;
  /** How long it took, without the time in which the machine was busy with other processes. */
  readonly ms: number;
  readonly status: number;
}

describe.skipIf(lacks("postgres"))("a frozen link to PostgreSQL", () => {
  let server: Postgres;
  beforeAll(async () => {
    server = await startPostgres();
  });
  afterAll(() => server.stop());

  /** A replica whose network to the database can be frozen, another one without, and callers. */
  async function start(schema: string) {
    const application = await startApplication();
    const provider = await startProvider();
    const wire = await openWire(server.port);
    onTestFinished(() => wire.close());
    const common = {
      LATCHKEY_FORWARD_URL: application.url,
      LATCHKEY_ALLOW_PRIVATE: `http://127.0.0.1:${provider.port}`,
    };
    const other = await startTestSidecar({ env: { ...common, LATCHKEY_STORE: server.storeUrl(schema) } });
    await other.client(ProviderService).createProvider({
      provider: {
        name: "here",
        auth: { case: "apiKey", value: { header: "x-api-key" } },
        proxy: { baseUrl: `https://127.0.0.1:${provider.port}` },
      },
    });
    await other.rest("POST", "/integrations", { body: { unique_key: "keyed", provider: "here" } });
    await other.rest("POST", "/integrations", { body: { unique_key: "hooks", provider: "private-api-key" } });
    for (let i = 0; i < connections; i += 20) {
      await Promise.all(
        Array.from({ length: 20 }, (_, n) =>
          other.rest("POST", "/connections", { body: keyedConnection(`c${i + n}`) }),
        ),
      );
    }
    const { body } = await other.rest("GET", "/integrations/hooks?include=webhook");
    const frozen = await startTestSidecar({
      env: { ...common, LATCHKEY_STORE: server.storeUrl(schema, { port: `${wire.port}` }) },
    });
    return { application, wire, other, frozen, hook: `${frozen.data}${new URL(body.data.webhook_url).pathname}` };
  }

  const isReady = async ({ ops }: TestSidecar) => (await fetch(`${ops}/readyz`)).status === 200;

  /** Resolves with how long it took. */
  async function until(what: () => Promise<boolean>, limitMs: number): Promise<number> {
    const elapsed = startStopwatch();
    while (!(await what())) {
      if (elapsed.ms > limitMs) return Number.POSITIVE_INFINITY;
      await sleep(50);
    }
    return elapsed.ms;
  }

  it.each([0, 200])(
    "is noticed within 10 s, and no caller waits longer, with %i callers",
    async (callers) => {
      const { application, wire, other, frozen, hook } = await start(`frozen_${callers}`);
      const calls: Call[] = [];
      const acknowledgedHooks: string[] = [];
      const acknowledgedMetadata = new Map<string, number>();
      let isOver = false;

      const kinds: readonly ((caller: number, turn: number) => Promise<Outcome>)[] = [
        async (caller, turn) => {
          const text = `{"caller":${caller},"turn":${turn}}`;
          const { status, headers } = await fetch(hook, { method: "POST", body: text });
          if (status === 200) acknowledgedHooks.push(text);
          return { kind: "webhook", status, headers };
        },
        async (caller, turn) => {
          const id = `c${(caller * 7 + turn) % connections}`;
          const { status, headers } = await frozen.rest("GET", "/proxy/", {
            headers: { "connection-id": id, "provider-config-key": "keyed" },
          });
          return { kind: "proxied", status, headers };
        },
        async (caller, turn) => {
          const id = `c${caller}`;
          const { status, headers } = await frozen.rest("PATCH", "/connection/metadata", {
            body: { connection_id: id, provider_config_key: "keyed", metadata: { turn } },
          });
          if (status === 200) acknowledgedMetadata.set(id, turn);
          return { kind: "metadata", status, headers };
        },
        async (caller, turn) => {
          const { status, headers } = await frozen.rest(
            "GET",
            `/connections/c${(caller * 13 + turn) % connections}?provider_config_key=keyed`,
          );
          return { kind: "read", status, headers };
        },
      ];

      /** Sees everything that happens, and resumes when it is sent away. */
      const seenByWatch = new Set<string>();
      const watching = new AbortController();
      async function watch(): Promise<void> {
        let fromRevision = 0n;
        while (!watching.signal.aborted) {
          try {
            const request = { environment: "dev", fromRevision };
            const { signal } = watching;
            for await (const { event } of frozen.client(ConnectionService).watchConnections(request, { signal })) {
              fromRevision = event.value?.revision ?? fromRevision;
              if (event.case === "put") seenByWatch.add(event.value.ref?.id ?? "");
            }
          } catch {
            await sleep(100);
          }
        }
      }

      async function call(caller: number): Promise<void> {
        const kind = kinds[caller % kinds.length];
        if (kind === undefined) throw new Error("a caller without a kind of calls");
        for (let turn = 1; !isOver; turn += 1) {
          const from = performance.now();
          const elapsed = startStopwatch();
          const outcome = await kind(caller, turn);
          // On a busy machine the replica may also refuse what it cannot do in time.
          if (outcome.headers.get("latchkey-error") !== "overloaded")
            calls.push({ kind: outcome.kind, from, ms: elapsed.ms, status: outcome.status });
          await sleep(callers * 8);
        }
      }

      /** The other replica writes, so that this one has something to catch up on. */
      async function writeElsewhere(): Promise<void> {
        for (let turn = 1; !isOver; turn += 1) {
          await other.rest("PATCH", "/connection/metadata", {
            body: { connection_id: "elsewhere", provider_config_key: "keyed", metadata: { turn } },
          });
          await sleep(20);
        }
      }

      await other.rest("POST", "/connections", { body: keyedConnection("elsewhere") });
      const writing = writeElsewhere();
      const watches = Array.from({ length: Math.ceil(callers / 8) }, watch);
      const calling = Array.from({ length: callers }, (_, caller) => call(caller));
      // All have had an answer: none of them waits for the burst of first calls.
      await expect.poll(() => calls.length).toBeGreaterThanOrEqual(2 * callers);

      const frozenAt = performance.now();
      wire.freeze();
      const noticedMs = await until(async () => !(await isReady(frozen)), 3 * noticedWithinMs);
      const noticedAt = performance.now();
      const reason = await (await fetch(`${frozen.ops}/readyz`)).text();
      await sleep(Math.max(0, frozenMs - (performance.now() - frozenAt)));
      const mendedAt = performance.now();
      wire.mend();
      const readyMs = await until(() => isReady(frozen), 3 * recoverWithinMs);
      const readyAt = performance.now();
      await sleep(2_000);
      isOver = true;
      await Promise.all([...calling, writing]);

      expect(noticedMs).toBeLessThan(noticedWithinMs);
      expect(reason).toMatch(/PostgreSQL at 127\.0\.0\.1:\d+: no answer in time/);
      expect(readyMs).toBeLessThan(recoverWithinMs);
      const perKind = new Set(calls.filter(({ status }) => status === 200).map(({ kind }) => kind));
      expect(perKind.size).toBe(callers === 0 ? 0 : kinds.length);
      const longest = calls.toSorted((a, b) => b.ms - a.ms)[0];
      expect(longest?.ms ?? 0, JSON.stringify(longest)).toBeLessThan(noticedWithinMs);
      // Once the freeze is known, callers are refused at once, with some tolerance for a busy process.
      const known = calls.filter(({ from }) => from > noticedAt + 500 && from < mendedAt);
      expect(Math.max(0, ...known.map(({ ms }) => ms))).toBeLessThan(3_000);
      const refused = known.filter(({ kind }) => kind === "webhook" || kind === "metadata");
      expect(new Set(refused.map(({ status }) => status))).toEqual(new Set(callers === 0 ? [] : [503]));

      // Everything works again, by itself, and all that was acknowledged is there.
      expect((await frozen.rest("POST", "/connections", { body: keyedConnection("after") })).status).toBe(201);
      const after = calls.filter(({ from }) => from > readyAt);
      expect(after.map(({ status }) => status).filter((status) => status !== 200)).toEqual([]);
      if (watches.length > 0) await expect.poll(() => seenByWatch.has("after")).toBe(true);
      watching.abort();
      await Promise.all(watches);
      for (const [id, turn] of acknowledgedMetadata) {
        const { body } = await other.rest("GET", `/connections/${id}?provider_config_key=keyed`);
        expect(body.metadata.turn, id).toBeGreaterThanOrEqual(turn);
      }
      const delivered = () =>
        new Set(application.seen.map(({ body }) => JSON.stringify(JSON.parse(body).payload ?? JSON.parse(body))));
      await expect.poll(() => acknowledgedHooks.filter((text) => !delivered().has(text)).length).toBe(0);
      expect((await frozen.metric("latchkey_unhandled_errors_total")) ?? 0).toBe(0);
    },
    120_000,
  );
});
