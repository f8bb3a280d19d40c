import { realpath } from "node:fs/promises";
import { resolve } from "node:path";
import type { JsonValue } from "@bufbuild/protobuf";
import { createLimiter } from "../base/limiter.ts";
import type { World } from "../base/world.ts";
import {
  type BrokenScript,
  type Script,
  type ScriptAt,
  type ScriptEndpoint,
  type ScriptFailure,
  type ScriptHost,
  type ScriptJob,
  type ScriptOutcome,
  ToolFailure,
  usualScriptLimits,
} from "../core/scripts/script.ts";
import { createBundler, readPrelude, restBundler } from "./bundle.ts";
import { listScripts, type ScriptFile, stampOf, watchFolder } from "./folder.ts";
import type { RawFailure, ToolCall } from "./messages.ts";
import { placeLine, placesOf } from "./stack.ts";
import { type FolderEntry, type ReadyScript, settleEndpoints, takeUp } from "./take-up.ts";
import { createThreads, type ThreadTask } from "./threads.ts";
import { createScriptThrottle } from "./throttle.ts";
import { createToolRows } from "./tool-rows.ts";

export interface ScriptHostOptions {
  /** Holds `<integration>/{syncs,actions,events}/<name>.ts`. */
  readonly folder: string;
  readonly world: Pick<World, "log" | "now">;
  readonly limits?: Partial<HostLimits>;
  /** Reports whether a path of the data port is one of Latchkey's own routes. */
  readonly isOwnPath?: (endpoint: ScriptEndpoint) => boolean;
}

export interface HostLimits {
  /** Worker threads; the proxy has a CPU core to itself. */
  readonly threads: number;
  /** Maximum concurrent runs per queue. Each may use all the memory that a run may have; further runs wait. */
  readonly runsAtOnce: number;
  /** Memory limit while a file is loaded: that of a run, so that whatever loads can run. */
  readonly memoryBytes: number;
  /** Interval at which the folder is checked even without events. */
  readonly lookMs: number;
  /** Changes within this time are handled together. */
  readonly quietMs: number;
}

const usualHostLimits: HostLimits = {
  threads: 1,
  runsAtOnce: 16,
  memoryBytes: usualScriptLimits.memoryBytes,
  lookMs: 5_000,
  quietMs: 50,
};
/** Upper limit of the delay when changes continue. */
const mostQuietMs = 1_000;
/** Idle time after which the bundler is stopped. */
const idleMs = 30_000;
/** Maximum number of files loaded concurrently. */
const takeUpAtOnce = 4;

export async function createScriptHost(options: ScriptHostOptions): Promise<ScriptHost> {
  const { world, isOwnPath = () => false } = options;
  const limits = { ...usualHostLimits, ...options.limits };
  const folder = resolve(options.folder);
  const prelude = await readPrelude();
  const { threads: count, memoryBytes } = limits;
  const threads = createThreads({ prelude, count, memoryBytes, world });
  const bundleScript = createBundler();
  const turn = createLimiter(limits.runsAtOnce);
  const readingTurn = createLimiter(takeUpAtOnce);
  const listeners = new Set<() => void>();
  const toolRows = createToolRows();
  const rests = createScriptThrottle();
  /** Keeps the code of a script that a caller still holds, even after it was replaced. */
  const handedOut = new WeakMap<Script, ReadyScript>();
  let entries = new Map<string, FolderEntry>();
  let good: readonly Script[] = [];
  let broken: readonly BrokenScript[] = [];
  let isClosed = false;

  async function look(): Promise<void> {
    const real = await realpath(folder).catch(() => undefined);
    const files = real === undefined ? undefined : await listScripts(real);
    if (real === undefined || files === undefined) {
      // Missing briefly or for good: the loaded scripts stay.
      world.log.warn("the folder of scripts cannot be read", { folder });
      return;
    }
    const before = entries;
    const taken = await Promise.all(files.map((file) => takeUpIfChanged(real, file, before.get(keyOf(file)))));
    if (isClosed) return;
    const isSame = taken.length === before.size && taken.every((entry) => before.get(keyOf(entry.file)) === entry);
    if (isSame) return;
    const settled = await settleEndpoints(taken, before, keyOf, isOwnPath, real);
    accept(new Map(settled.map((entry) => [keyOf(entry.file), entry])), before);
  }

  async function takeUpIfChanged(
    real: string,
    file: ScriptFile,
    before: FolderEntry | undefined,
  ): Promise<FolderEntry> {
    if (before !== undefined && (await stampOf(before.inputs)) === before.stamp) return before;
    const done = await readingTurn("read");
    try {
      return await takeUp(file, before, { folder: real, prelude, threads, bundleScript });
    } finally {
      done();
    }
  }

  function accept(next: Map<string, FolderEntry>, before: ReadonlyMap<string, FolderEntry>): void {
    entries = next;
    const all = [...next.values()];
    for (const { ready } of all) if (ready !== undefined) handedOut.set(ready.script, ready);
    const versions = new Set(all.flatMap(versionsIn));
    for (const version of new Set([...before.values()].flatMap(versionsIn))) {
      if (versions.has(version)) continue;
      threads.forget(version);
      rests.forget(version);
    }
    const hadChanged =
      all.length !== before.size ||
      all.some((entry) => {
        const old = before.get(keyOf(entry.file));
        return old === undefined || !sameOutcome(entry, old);
      });
    good = all.flatMap(({ ready }) => (ready === undefined ? [] : [ready.script]));
    broken = all.flatMap((entry) => (entry.broken === undefined ? [] : [entry.broken]));
    if (!hadChanged) return;
    for (const { file, mistakes } of broken) {
      for (const mistake of mistakes) world.log.warn("a script is not used as it stands", { script: file, ...mistake });
    }
    world.log.info("scripts taken up", { scripts: good.length, broken: broken.length });
    for (const listener of listeners) listener();
  }

  let sleep: NodeJS.Timeout | undefined;
  /** The current scan: one runs at a time, and a change during the scan starts another one. */
  let looking: Promise<void> | undefined;
  let isAgain = false;
  async function lookInTurn(): Promise<void> {
    if (looking !== undefined) {
      isAgain = true;
      return looking;
    }
    looking = look()
      .catch((error: unknown) => world.log.error("the folder of scripts could not be taken up", { err: error }))
      .finally(() => {
        looking = undefined;
        clearTimeout(sleep);
        sleep = setTimeout(() => looking ?? void restBundler(), idleMs);
        sleep.unref();
        if (!isAgain || isClosed) return;
        isAgain = false;
        changed();
      });
    return looking;
  }
  let quiet: NodeJS.Timeout | undefined;
  let firstHeard = 0;
  /** Waits for files that are still being written, up to a limit. */
  function changed(): void {
    if (isClosed) return;
    if (quiet === undefined) firstHeard = performance.now();
    else if (performance.now() - firstHeard > mostQuietMs) return;
    clearTimeout(quiet);
    quiet = setTimeout(() => {
      quiet = undefined;
      void lookInTurn();
    }, limits.quietMs);
    quiet.unref();
  }

  await lookInTurn();
  const unwatch = watchFolder(folder, limits.lookMs, changed);

  function run(script: Script, job: ScriptJob): Promise<ScriptOutcome> {
    const ready = handedOut.get(script) ?? entries.get(keyOf(script))?.ready;
    if (ready === undefined) return Promise.resolve(failed("host_error", `there is no script ${script.name} any more`));
    if (isClosed) return Promise.resolve(failed("host_error", "the host of scripts is closed"));
    return runInTurn(ready, job);
  }

  async function runInTurn(ready: ReadyScript, job: ScriptJob): Promise<ScriptOutcome> {
    const since = performance.now();
    const { deadlineMs } = job.limits;
    const { version } = ready.script;
    const given = AbortSignal.any([job.signal, AbortSignal.timeout(Math.ceil(deadlineMs))]);
    const isResting = rests.has(version);
    const isNested = job.row === "nested";
    const letOn = isResting ? await rests.over(version, { signal: given, isNested }) : undefined;
    const granted = turn(job.row);
    const isTooLate = await Promise.race([granted.then(() => false), aborted(given)]);
    const done = isTooLate ? () => void granted.then((back) => back()) : await granted;
    try {
      if (job.signal.aborted) return failed("cancelled", "ended before it began");
      const leftMs = Math.ceil(deadlineMs - (performance.now() - since));
      if (isTooLate || leftMs <= 0) {
        const why = isResting ? ": those before it were ended for what they took" : "";
        return failed("deadline", `had no turn within ${deadlineMs} ms${why}`);
      }
      const began = performance.now();
      const outcome = await runNow(ready, { ...job, limits: { ...job.limits, deadlineMs: leftMs } });
      if (rests.note(version, { outcome, ms: performance.now() - began })) {
        const { integration, name } = ready.script;
        world.log.warn("a script takes more than it may, and rests between its runs", { integration, script: name });
      }
      return outcome;
    } finally {
      done();
      letOn?.();
    }
  }

  function runNow({ script, bundle }: ReadyScript, job: ScriptJob): Promise<ScriptOutcome> {
    const { entry, facts, tools, signal } = job;
    const input = job.input === undefined ? {} : { input: job.input };
    return new Promise((resolve) => {
      let isOver = false;
      const row = toolRows.open();
      // A thread that no longer reads messages, such as one in an endless loop, is ended from here.
      const late = setTimeout(
        () => end(failed("deadline", `took longer than ${job.limits.deadlineMs} ms`), true),
        job.limits.deadlineMs + 500,
      );
      const cancel = () => end(failed("cancelled", "ended from outside"), true);
      function end(outcome: ScriptOutcome, isOurs: boolean): void {
        if (isOver) return;
        isOver = true;
        row.clear();
        clearTimeout(late);
        signal.removeEventListener("abort", cancel);
        if (isOurs) task.drop();
        resolve(outcome);
      }
      /** The run ended by itself. Calls that it made without waiting are still executed. */
      function ended(outcome: ScriptOutcome): void {
        row.beginAll();
        end(outcome, false);
      }
      const task: ThreadTask = threads.run({
        version: script.version,
        code: bundle.code,
        base: bundle.base,
        start: JSON.stringify({ entry, facts, ...input }),
        limits: job.limits,
        events: {
          calls(calls) {
            for (const call of calls) row.add(() => void answer(call));
          },
          lines(lines) {
            if (!isOver) for (const line of lines) tools.log(line);
          },
          done: (text) => ended({ kind: "done", output: text === "" ? undefined : plainJson(text) }),
          failed: (failure) => ended({ kind: "failed", failure: readable(failure, bundle.map) }),
        },
      });
      signal.addEventListener("abort", cancel, { once: true });

      async function answer({ id, tool, text }: ToolCall): Promise<void> {
        if (isOver) return;
        try {
          const value = await tools.call(tool, plainJson(text) as readonly JsonValue[]);
          if (!isOver) task.answer(id, JSON.stringify({ ok: true, value }));
        } catch (error) {
          if (isOver) return;
          if (error instanceof ToolFailure) {
            const { code, message, details } = error;
            task.answer(id, JSON.stringify({ ok: false, code, message, details }));
            return;
          }
          world.log.error("a tool of a script failed", { tool, script: script.name, err: error });
          end(failed("host_error", `nango.${tool} failed here`), true);
        }
      }
    });
  }

  return {
    all: () => good,
    broken: () => broken,
    find: (at) => entries.get(keyOf(at))?.ready?.script,
    sourceOf: (script) => handedOut.get(script)?.source,
    onChange(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    run,
    async close() {
      isClosed = true;
      toolRows.close();
      clearTimeout(quiet);
      clearTimeout(sleep);
      unwatch();
      listeners.clear();
      await looking;
      await threads.close();
      await restBundler();
    },
  };
}

const aborted = (signal: AbortSignal): Promise<boolean> =>
  new Promise((resolve) => {
    if (signal.aborted) resolve(true);
    else signal.addEventListener("abort", () => resolve(true), { once: true });
  });

/** Versions of the script and its base that threads may have loaded. */
const versionsIn = ({ ready }: FolderEntry): readonly string[] =>
  ready === undefined
    ? []
    : [ready.script.version, ...(ready.bundle.base === undefined ? [] : [ready.bundle.base.version])];

const keyOf = ({ integration, kind, name }: ScriptAt) => `${integration}/${kind}/${name}`;

const sameOutcome = (a: FolderEntry, b: FolderEntry) =>
  a.ready?.script.version === b.ready?.script.version && JSON.stringify(a.broken) === JSON.stringify(b.broken);

/** Parses JSON without `__proto__` keys, which could set a prototype when assigned; no real data has one. */
function plainJson(text: string): JsonValue {
  if (!/__proto__|\\u005[fF]/.test(text)) return JSON.parse(text) as JsonValue;
  return JSON.parse(text, (key, value: unknown) => (key === "__proto__" ? undefined : value)) as JsonValue;
}

const failed = (code: RawFailure["code"], message: string): ScriptOutcome => ({
  kind: "failed",
  failure: { code, message, stack: [] },
});

function readable({ stack, ...failure }: RawFailure, map: string): ScriptFailure {
  return { ...failure, stack: placesOf(stack, map).map(placeLine) };
}
