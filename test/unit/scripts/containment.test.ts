import { setTimeout as sleep } from "node:timers/promises";
import { expect, it } from "vitest";
import { action, failure, type Hosted, hosted, output, type RunOptions } from "./hosting.ts";

const mib = 2 ** 20;

async function one(body: string, options?: RunOptions) {
  const at = await hosted({ "calendar/actions/it.ts": action(body) });
  return { at, ran: await at.run("it", options) };
}

/** The most that this process grew by while something ran. */
async function growth(during: () => Promise<void>): Promise<number> {
  const before = process.memoryUsage().rss;
  let most = before;
  const timer = setInterval(() => {
    most = Math.max(most, process.memoryUsage().rss);
  }, 2);
  await during();
  clearInterval(timer);
  return most - before;
}

it("X01 kills a spinning script, without delaying others", async () => {
  const at = await hosted({ "calendar/actions/it.ts": action("while (true) {}") });
  let ticks = 0;
  const timer = setInterval(() => {
    ticks += 1;
  }, 5);
  const began = performance.now();
  const ran = await at.run("it", { limits: { busyMs: 600 } });
  clearInterval(timer);
  expect(failure(ran)).toMatchObject({ code: "busy" });
  expect(performance.now() - began).toBeGreaterThan(590);
  // If the script had run in this thread, there would be none.
  expect(ticks).toBeGreaterThan(20);
});

it.each([
  ["promises without end", "const again = () => Promise.resolve().then(again); await again();"],
  ["what cannot be caught", "for (;;) { try { for (;;) {} } catch {} finally { for (;;) {} } }"],
  ["an await in a loop", "for (;;) await 0;"],
  ["a generator without end", "for await (const _ of (async function* () { for (;;) yield 1; })()) {}"],
  ["a getter that spins", "return { get a() { for (;;) {} } };"],
  ["an error that spins", "throw { get message() { for (;;) {} } };"],
  ["a pattern that explodes", "return /^(a+)+$/.test('a'.repeat(60) + 'b');"],
])("X01 kills %s", async (_, body) => {
  const { ran } = await one(body, { limits: { busyMs: 300 } });
  expect(failure(ran)).toMatchObject({ code: "busy" });
});

it("X01 ends a script that waits too long", async () => {
  const { ran } = await one("await nango.get({ endpoint: '/' });", {
    limits: { deadlineMs: 200 },
    tool: () => new Promise(() => undefined),
  });
  expect(failure(ran)).toMatchObject({ code: "deadline" });
});

it("X01 ends one that spins at its deadline, where that comes first", async () => {
  const { ran } = await one("for (;;) {}", { limits: { deadlineMs: 200, busyMs: 5_000 } });
  expect(failure(ran)).toMatchObject({ code: "deadline" });
});

it.each([
  ["a long text", "let s = 'x'.repeat(1 << 20); for (let i = 0; i < 11; i++) s += s; return s.length;"],
  ["a text at once", "return 'x'.repeat(2 ** 31 - 2).length;"],
  ["a list", "const a: unknown[] = []; for (;;) a.push({ a: [1, 2, 3] });"],
  ["a list of texts", "const a: string[] = []; for (let i = 0; ; i++) a.push('x'.repeat(100_000) + i);"],
  ["bytes at once", "return new ArrayBuffer(2 ** 31).byteLength;"],
  ["bytes by and by", "const a: unknown[] = []; for (;;) a.push(new Uint8Array(10_000_000).fill(1));"],
  ["a filled list", "return new Array(2 ** 28).fill(7).length;"],
  ["a number", "return String(2n ** (2n ** 31n)).length;"],
  ["a pattern", "return new RegExp('(?:' + 'a'.repeat(50_000_000) + '){1000}').test('a');"],
  [
    "one that catches it",
    "const a: unknown[] = []; for (;;) { try { for (;;) a.push(new Uint8Array(1_000_000)); } catch {} }",
  ],
])("X02 keeps this process small when a script takes 2 GiB: %s", async (_, body) => {
  const at = await hosted({
    "calendar/actions/it.ts": action(body),
    "calendar/actions/other.ts": action("return 'well';"),
  });
  output(await at.run("other"));
  const grown = await growth(async () => {
    const ran = await at.run("it", { limits: { busyMs: 2_000 } });
    expect(["memory", "script_error", "busy"]).toContain(failure(ran).code);
  });
  expect(grown / mib).toBeLessThan(150);
  expect(output(await at.run("other"))).toBe("well");
});

it("X02 names memory as the reason", async () => {
  const { ran } = await one("const a: unknown[] = []; for (;;) a.push(new Uint8Array(1_000_000));");
  expect(failure(ran)).toMatchObject({ code: "memory" });
});

it("X02 allows a file at load as much memory as a run, and no more", async () => {
  const holding = (size: number) => action("return held.length;", `const held = new Uint8Array(${size}).fill(1);`);
  const files = { "calendar/actions/it.ts": holding(100 * mib) };
  const wide = await hosted(files, { limits: { memoryBytes: 192 * mib } });
  expect(output(await wide.run("it", { limits: { memoryBytes: 192 * mib } }))).toBe(100 * mib);
  const narrow = await hosted({ "calendar/actions/it.ts": holding(40 * mib) }, { limits: { memoryBytes: 32 * mib } });
  expect(narrow.host.all()).toEqual([]);
  expect(narrow.host.broken()).toMatchObject([{ mistakes: [{ message: expect.stringContaining("out of memory") }] }]);
});

it.each([
  ["functions", "const a: unknown[] = []; for (;;) { const b = a.length; a.push(() => b); }"],
  ["a map", "const a = new Map<string, string>(); for (let i = 0; ; i++) a.set('k' + i, 'v' + i);"],
])("X02 says that it was memory of one that has none left to say so: %s", async (_, body) => {
  const { ran } = await one(body);
  expect(failure(ran)).toMatchObject({ code: "memory" });
});

it("X02 blames no memory that was refused before for a failure that comes later", async () => {
  const { ran } = await one(
    "try { new ArrayBuffer(500_000_000); } catch {} await nango.get({ endpoint: '/' }); await new Promise(() => {});",
    { tool: () => ({ status: 200, headers: {}, data: null }) },
  );
  expect(failure(ran)).toMatchObject({ code: "script_error", message: expect.stringContaining("can never settle") });
});

it("X02 limits a million lines to the allowed number, and reports it", async () => {
  const { ran } = await one("for (let i = 0; i < 1_000_000; i++) nango.log('line', i); return 'done';", {
    limits: { busyMs: 60_000 },
  });
  expect(output(ran)).toBe("done");
  expect(ran.lines).toHaveLength(1_001);
  expect(ran.lines.at(999)).toEqual({ level: "info", message: "line 999" });
  expect(ran.lines.at(-1)).toMatchObject({
    level: "warn",
    message: expect.stringContaining("further lines are dropped"),
  });
});

it.each([
  ["x", 8_192],
  // Bytes are counted, not letters.
  ["漢", 2_730],
])("X02 limits lines of %s to a mebibyte, and reports it", async (letter, fitting) => {
  const { ran } = await one(`for (let i = 0; i < 200; i++) nango.log('${letter}'.repeat(10_000)); return 'done';`);
  expect(output(ran)).toBe("done");
  const said = ran.lines.slice(0, -1);
  expect(said.map(({ message }) => message.length)).toEqual(Array.from({ length: 128 }, () => fitting));
  expect(ran.lines.at(-1)).toMatchObject({
    level: "warn",
    message: expect.stringContaining("further lines are dropped"),
  });
});

it("X02 cuts a line that is too long", async () => {
  const { ran } = await one("nango.log('é'.repeat(1_000_000));");
  expect(Buffer.byteLength(ran.lines[0]?.message ?? "")).toBe(8_192);
});

it("X02 answers ten thousand concurrent requests, a limited number at a time", async () => {
  let [now, most] = [0, 0];
  const { ran } = await one(
    `const all = await Promise.all(Array.from({ length: 10_000 }, (_, i) => nango.get({ endpoint: "/" + i })));
     return all.every((one, i) => one.data === "/" + i) && all.length;`,
    {
      limits: { toolCallsAtOnce: 32 },
      async tool(_, [config]) {
        now += 1;
        most = Math.max(most, now);
        await sleep(10);
        now -= 1;
        return { status: 200, headers: {}, data: (config as { endpoint: string }).endpoint };
      },
    },
  );
  expect(output(ran)).toBe(10_000);
  expect(most).toBe(32);
});

it("X02 ends a script that calls without end", async () => {
  const { ran } = await one("for (;;) await nango.get({ endpoint: '/' });", {
    limits: { toolCalls: 100 },
    tool: () => ({ status: 200, headers: {}, data: 1 }),
  });
  expect(failure(ran)).toMatchObject({ code: "tool_calls" });
  expect(ran.calls).toHaveLength(100);
});

it("X02 refuses an output that is too large", async () => {
  const { ran } = await one("return 'x'.repeat(3_000_000);");
  expect(failure(ran)).toMatchObject({ code: "output_too_large" });
});

const secret = "LATCHKEY-CANARY-of-the-environment";
process.env["LATCHKEY_CANARY"] = secret;

/** Names that would be a way out, wherever they are looked for. */
const roots = ["globalThis", "this", "nango", "nango.get", "nango.get.constructor", "Function('return this')()"];

it("X03 has nothing of the host among its globals", async () => {
  const { ran } = await one(
    `const names = ["process", "global", "module", "exports", "Worker", "SharedArrayBuffer", "Atomics", "WebAssembly",
       "XMLHttpRequest", "WebSocket", "postMessage", "parentPort", "workerData", "std", "os", "bjson", "__host", "__enter", "gc"];
     return names.filter((name) => name in globalThis);`,
  );
  expect(output(ran)).toEqual([]);
});

it.each(roots)("X03 reaches nothing of the host from %s", async (root) => {
  const { ran } = await one(
    `const seen = new Set<unknown>();
     const found: string[] = [];
     const look = (value: any, path: string, depth: number) => {
       if ((typeof value !== "object" && typeof value !== "function") || value === null || seen.has(value) || depth > 8) {
         if (typeof value === "string" && value.includes("CANARY")) found.push(path);
         return;
       }
       seen.add(value);
       for (const key of Reflect.ownKeys(value)) {
         if (/^(env|mainModule|binding|dlopen|parentPort|workerData|native)$/.test(String(key))) found.push(path + "." + String(key));
         try { look(value[key], path + "." + String(key), depth + 1); } catch {}
       }
       look(Object.getPrototypeOf(value), path + ".__proto__", depth + 1);
     };
     look(${root}, "${root.replaceAll('"', "'")}", 0);
     return { found, many: seen.size };`,
  );
  expect(output(ran)).toMatchObject({ found: [] });
  expect(JSON.stringify(ran)).not.toContain(secret);
});

it.each([
  ["process.exit()", "process.exit();", /process is not defined.*getEnvironmentVariables/],
  ["process.env", "return process.env;", /process is not defined/],
  ["require that is not seen", "const r = (globalThis as any)['req' + 'uire']; return r('fs');", /cannot use require/],
  ["import of a name that is made", "return await import(String(nango.connectionId));", /./],
  ["fetch", "return await fetch('http://127.0.0.1/');", /no network access: use nango.get/],
  [
    "constructor.constructor",
    "return nango.get.constructor.constructor('return process')();",
    /process is not defined/,
  ],
  ["Atomics.wait", "return Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);", /is not defined/],
  ["WebAssembly", "return new WebAssembly.Memory({ initial: 1 });", /WebAssembly is not defined/],
  ["recursion", "const f = (n: number): number => 1 + f(n + 1); return f(0);", /stack|nested calls/],
  ["recursion in JSON", "let o: any = {}; for (let i = 0; i < 1e5; i++) o = { o }; return o;", /stack|nested calls/],
  ["a throw of nothing", "throw undefined;", /undefined/],
  ["a throw of a symbol", "throw Symbol('s');", /./],
  ["a rejection", "return Promise.reject(new Error('later'));", /later/],
])("X03 contains %s", async (_, body, message) => {
  const at = await hosted({
    "calendar/actions/it.ts": action(body),
    "calendar/actions/other.ts": action("await nango.get({ endpoint: '/' }); return 'well';"),
  });
  let release: () => void = () => undefined;
  const held = new Promise<void>((resolve) => {
    release = resolve;
  });
  // In the same thread, and half done when the other fails.
  const other = at.run("other", { tool: () => held.then(() => ({ status: 200, headers: {}, data: 1 })) });
  // A busy machine takes seconds for the deep ones.
  const ran = await at.run("it", { limits: { busyMs: 60_000 } });
  release();
  expect(failure(ran)).toMatchObject({ code: "script_error", message: expect.stringMatching(message) });
  expect(failure(ran).message).not.toContain(secret);
  expect((await other).outcome).toEqual({ kind: "done", output: "well" });
});

it("X03 survives an unhandled rejection", async () => {
  const { ran } = await one("void Promise.reject(new Error('nobody')); return 1;");
  expect(output(ran)).toBe(1);
});

it("X03 ends a script that waits for nothing", async () => {
  const { ran } = await one("await new Promise(() => {});");
  expect(failure(ran)).toMatchObject({ code: "script_error", message: expect.stringContaining("can never settle") });
});

it("X03 lets no answer change a prototype", async () => {
  const { ran } = await one(
    `const { data } = await nango.get({ endpoint: "/" });
     return [({} as any).polluted ?? null, Object.getPrototypeOf(data) === Object.prototype, ({} as any).code ?? null];`,
    {
      tool: () =>
        JSON.parse(
          '{"status":200,"headers":{},"data":{"__proto__":{"polluted":1},"constructor":{"prototype":{"polluted":1}}}}',
        ),
    },
  );
  expect(output(ran)).toEqual([null, true, null]);
});

it("X03 passes no __proto__ to the host", async () => {
  const { ran } = await one(
    `await nango.batchSave;
     await nango.setMetadata(JSON.parse('{"a":1,"__proto__":{"polluted":1},"b":{"__pro\\\\u0074o__":{"polluted":1}}}'));
     return JSON.parse('{"__proto__":{"polluted":1},"c":1}');`,
  );
  expect(Object.keys(ran.calls[0]?.given[0] as object)).toEqual(["a", "b"]);
  expect(ran.calls[0]?.given[0]).toEqual({ a: 1, b: {} });
  expect(Object.keys(output(ran) as object)).toEqual(["c"]);
});

it("X03 gives tools data alone: no symbols, no getters, no proxies", async () => {
  const { ran } = await one(
    `await nango.setMetadata({ [Symbol("s")]: 1, f() {}, u: undefined, get g() { return 7; },
       p: new Proxy({ x: 1 }, {}), d: new Date(0), n: NaN, s: Symbol("t") });`,
  );
  expect(ran.calls[0]?.given).toEqual([{ g: 7, p: { x: 1 }, d: "1970-01-01T00:00:00.000Z", n: null }]);
});

it("X03 ends a script that changes the language under its tools, and does not affect others", async () => {
  const { ran } = await one(
    `JSON.stringify = (() => "not json") as any; Promise.prototype.then = (() => {}) as any;
     Map.prototype.set = (() => { throw 1; }) as any;
     return await nango.get({ endpoint: "/" });`,
    { limits: { deadlineMs: 2_000 } },
  );
  expect(ran.outcome.kind).toBe("failed");
});

it("X03 starts each run from scratch: it knows nothing of earlier runs", async () => {
  const at = await hosted({
    "calendar/actions/it.ts": action(
      `(globalThis as any).count = ((globalThis as any).count ?? 0) + 1; kept.push(1);
       (Array.prototype as any).mark = ((Array.prototype as any).mark ?? 0) + 1;
       return [(globalThis as any).count, kept.length, (Array.prototype as any).mark, Math.random(), crypto.randomUUID()];`,
      "const kept: number[] = [];",
    ),
  });
  const all = [await at.run("it"), ...(await Promise.all([at.run("it"), at.run("it")]))].map(output) as unknown[][];
  for (const one of all) expect(one.slice(0, 3)).toEqual([1, 1, 1]);
  expect(new Set(all.map((one) => one[3])).size).toBe(3);
  expect(new Set(all.map((one) => one[4])).size).toBe(3);
});

it("X01 ends a thread blocked by one engine step, rejects its runs, and loads again the files it was loading", async () => {
  const files = {
    // A search of many hours, in which the engine never checks for interruption.
    "calendar/actions/it.ts": action("return 'a'.repeat(8_000_000).indexOf('a'.repeat(4_000_000) + 'b');"),
    "calendar/actions/other.ts": action("await nango.get({ endpoint: '/' }); return 'well';"),
  };
  const at = await hosted(files, { limits: { loadingMs: 1_000 } });
  const other = at.run("other", { tool: () => new Promise(() => undefined) });
  const blocked = at.run("it", { limits: { busyMs: 300 } });
  await at.write("calendar/actions/late.ts", action("return 'loaded';"));
  const ran = await blocked;
  expect(failure(ran)).toMatchObject({ code: "busy", message: expect.stringContaining("could not be interrupted") });
  expect(failure(await other)).toMatchObject({ code: "host_error", message: expect.stringContaining("hung") });
  const again = await at.run("other", { tool: () => ({ status: 200, headers: {}, data: 1 }) });
  expect(output(again)).toBe("well");
  await expect.poll(() => at.host.all().map(({ name }) => name)).toContain("late");
});

async function cancelled(at: Hosted, body: RunOptions) {
  const abort = new AbortController();
  const going = at.run("it", { ...body, signal: abort.signal });
  setTimeout(() => abort.abort(), 50);
  return failure(await going);
}

it("cancels a run from outside, waiting or not yet started", async () => {
  const at = await hosted(
    { "calendar/actions/it.ts": action("await nango.get({ endpoint: '/' });") },
    { limits: { runsAtOnce: 1 } },
  );
  const waiting = { tool: () => new Promise<undefined>(() => undefined) };
  expect(await cancelled(at, waiting)).toMatchObject({ code: "cancelled" });
  const first = at.run("it", { ...waiting, limits: { deadlineMs: 1_000 } });
  expect(await cancelled(at, waiting)).toMatchObject({ code: "cancelled" });
  expect(failure(await first)).toMatchObject({ code: "deadline" });
});
