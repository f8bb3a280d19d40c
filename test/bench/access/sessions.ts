import { spawnSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { fileURLToPath } from "node:url";
import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { digestOf, newSessionToken, shortDigestOf } from "../../../src/base/ids.ts";
import { createLog } from "../../../src/base/log.ts";
import { createMetrics } from "../../../src/base/metrics/metrics.ts";
import { createAccessSessionCollections } from "../../../src/broker/access-sessions/access-session-collections.ts";
import { createAccessBudgets } from "../../../src/broker/access-sessions/budgets.ts";
import { openSessionCallers } from "../../../src/broker/access-sessions/session-callers.ts";
import { type Caller, type CallerAccessSession, callerOfKey } from "../../../src/broker/setup/caller.ts";
import { Scope } from "../../../src/gen/latchkey/v1/access_pb.ts";
import { AccessSessionSchema } from "../../../src/gen/latchkey/v1/access_session_pb.ts";
import { KeySchema } from "../../../src/gen/latchkey/v1/environment_pb.ts";
import { openBackend } from "../../../src/store/open.ts";
import { localSealKey } from "../../../src/store/sealed/seal-key.ts";
import { openSealedStore } from "../../../src/store/sealed/sealed.ts";
import { withFolder } from "../sidecar-process.ts";

const usualCount = 100_000;

/** The memory of live access sessions, and the time of a check. In a process of its own, with `--expose-gc`. */
export async function sessions(asked: number): Promise<void> {
  const args = ["--expose-gc", "--max-semi-space-size=1", fileURLToPath(import.meta.url), String(asked || usualCount)];
  const { status } = spawnSync(process.execPath, args, { stdio: ["ignore", "inherit", "inherit"] });
  if (status !== 0) throw new Error("the process of the bench failed");
}

const key = create(KeySchema, { id: "backend", environment: "prod", scopes: [Scope.PROXY] });
const mark = "0011223344556677ab";
const marked = { caller: callerOfKey(key, mark), expiresAtMs: Number.POSITIVE_INFINITY };
const keys = { keyMarked: () => marked, listen: () => () => {} };

async function measure(folder: string, count: number): Promise<void> {
  const world = {
    now: Date.now,
    log: createLog({ level: "error", format: "json", write: (line) => void process.stderr.write(line) }),
    metrics: createMetrics(),
  };
  const backend = await openBackend({ kind: "level", folder }, world);
  const seals = [localSealKey({ id: "bench", secret: randomBytes(32) })];
  const store = await openSealedStore({ backend, keys: seals, world });
  const collections = createAccessSessionCollections(store);
  const tokens = Array.from({ length: count }, newSessionToken);
  for (let from = 0; from < count; from += 1_000) {
    const some = tokens.slice(from, from + 1_000);
    await store.commit(some.flatMap((token, i) => collections.accessSessions.added(sessionOf(token, from + i))));
  }
  const before = await usedBytes();
  const since = performance.now();
  const budgets = createAccessBudgets({ store, collections, world });
  const callers = await openSessionCallers({ store, keys, budgets, world });
  const tookMs = performance.now() - since;
  const bytes = (await usedBytes()) - before;
  say(`${count} live sessions: ${Math.round(bytes / count)} bytes each; read at start in ${Math.round(tookMs)} ms`);

  const authenticated = (token: string): Caller & { readonly accessSession: CallerAccessSession } => {
    const caller = callers.authenticate(token);
    if (caller instanceof Promise || caller.accessSession === undefined) throw new Error("a session is not in memory");
    return { ...caller, accessSession: caller.accessSession };
  };
  const lately = tokens.slice(0, 1_000);
  for (const token of lately) authenticated(token);
  const found = lately.map(authenticated);
  const request = { method: "GET", host: "api.github.com", basePath: "", path: "/repos/ada/issues", rawHeaders: [] };
  report("a repeated request on one connection (isCurrent)", 1_000_000, (i) => {
    if (!callers.isCurrent(found[i % 1_000] as (typeof found)[0])) throw new Error("the session is over");
  });
  report("its connection and its limits (methods, paths)", 1_000_000, (i) => {
    const { limits } = found[i % 1_000] as (typeof found)[0];
    if (limits?.admitsConnection({ integration: "github", id: `user-${i % 1_000}` }) !== true)
      throw new Error("refused");
    if (limits.refusalOf(request) !== undefined) throw new Error("refused");
  });
  report("the hash of a token alone", 300_000, (i) => void shortDigestOf(lately[i % 1_000] ?? ""));
  report(
    "a token that was used lately, with its hash",
    300_000,
    (i) => void callers.authenticate(lately[i % 1_000] ?? ""),
  );
  report("a token that was not used lately", Math.min(count, 50_000), (i) => {
    void callers.authenticate(tokens[count - 1 - i] ?? "");
  });
  callers.close();
  await budgets.close();
  store.close();
  await backend.close();
}

const sessionOf = (token: string, i: number) =>
  create(AccessSessionSchema, {
    id: digestOf(token).slice(0, 32),
    environment: "prod",
    limits: {
      connections: [{ integration: "github", id: `user-${i}` }],
      methods: ["GET", "POST"],
      paths: ["/repos/*/issues", "/user/**"],
    },
    scopes: [Scope.PROXY],
    expiresAt: timestampFromMs(Date.now() + 3_600_000),
    createdBy: "backend",
    keyMark: Buffer.from(mark, "hex"),
    createdAt: timestampFromMs(Date.now()),
    label: "triage",
  });

/** The heap and array buffers, without garbage. */
async function usedBytes(): Promise<number> {
  for (let i = 0; i < 4; i += 1) {
    globalThis.gc?.();
    await new Promise((resolve) => setImmediate(resolve));
  }
  const { heapUsed, arrayBuffers } = process.memoryUsage();
  return heapUsed + arrayBuffers;
}

function report(what: string, count: number, run: (i: number) => void): void {
  for (let i = 0; i < Math.min(1_000, count); i += 1) run(i);
  const since = performance.now();
  for (let i = 0; i < count; i += 1) run(i);
  say(`  ${what}: ${Math.round(((performance.now() - since) * 1e6) / count)} ns`);
}

const say = (line: string) => void process.stdout.write(`${line}\n`);

const [, program, count] = process.argv;
if (program === fileURLToPath(import.meta.url)) await withFolder((folder) => measure(folder, Number(count)));
