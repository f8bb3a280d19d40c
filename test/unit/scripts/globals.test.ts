import { createHash, createHmac } from "node:crypto";
import { expect, it } from "vitest";
import { action, failure, hosted, output } from "./hosting.ts";

/** Evaluates the same text in a script and here: scripts should behave like Node. */
async function both(expressions: readonly string[], imports = "") {
  const list = expressions.map((one) => `() => (${one})`).join(",\n");
  const body = `return [${list}].map((run: any) => { try { return run(); } catch (e: any) { return "threw " + e.name; } });`;
  const at = await hosted({ "calendar/actions/it.ts": action(body, imports) });
  const inside = output(await at.run("it")) as unknown[];
  const here = expressions.map((one) => {
    try {
      return JSON.parse(JSON.stringify(new Function(`return (${one})`)() ?? null)) as unknown;
    } catch (error) {
      return `threw ${error instanceof Error ? error.name : ""}`;
    }
  });
  return Object.fromEntries(expressions.map((one, i) => [one, [inside[i], here[i]]]));
}

async function alike(expressions: readonly string[]) {
  for (const [expression, [inside, here]] of Object.entries(await both(expressions))) {
    expect([expression, inside]).toEqual([expression, here]);
  }
}

it("reads URLs as Node does", async () => {
  await alike([
    "new URL('/a/../b?x=1#h', 'https://u:p@x.test:8443').href",
    "new URL('https://ü.test/ä b').toString()",
    "new URL('http://x.test:80/').port",
    "new URL('nonsense')",
    "URL.canParse('nonsense')",
    "JSON.stringify({ u: new URL('https://x.test') })",
    "(() => { const u = new URL('https://x.test/?a=1'); u.searchParams.append('b', 'c d'); u.hash = 'z'; return u.href; })()",
    "(() => { const u = new URL('https://x.test/?a=1'); u.search = '?q=2'; return u.searchParams.get('q'); })()",
    "(() => { const u = new URL('https://x.test/'); u.pathname = '/ä'; u.protocol = 'http:'; u.host = 'y.test:1'; return [u.href, u.origin]; })()",
    "new URLSearchParams({ a: 'b c', d: '&=+%*~!\\'()', e: 'ü' }).toString()",
    "[...new URLSearchParams('?a=1&a=2&b=%zz+%41&&c')]",
    "(() => { const p = new URLSearchParams('b=1&a=2&b=3'); p.sort(); p.set('b', '9'); p.delete('a'); return [p.toString(), p.size, p.has('b'), p.getAll('b')]; })()",
    "new URLSearchParams([['a', '1'], ['a', '2']]).toString()",
  ]);
});

it("turns text to bytes and back as Node does", async () => {
  await alike([
    "Array.from(new TextEncoder().encode('aé€😀\\ud800'))",
    "new TextDecoder().decode(new Uint8Array([0xef, 0xbb, 0xbf, 97, 0xc3, 0xa9, 0xf0, 0x9f, 0x98, 0x80]))",
    "new TextDecoder().decode(new Uint8Array([97, 0xff, 0xc0, 0x80, 0xe2, 0x82, 98, 0xed, 0xa0, 0x80, 0xf4, 0x90, 0x80, 0x80]))",
    "new TextDecoder('utf-8', { fatal: true }).decode(new Uint8Array([0xff]))",
    "btoa('hi\\xff')",
    "atob('aGn/ ')",
    "Buffer.from('grüße 😀').toString('base64')",
    "Buffer.from('grüße').toString('base64url')",
    "Buffer.from('Z3LDvMOfZQ', 'base64url').toString()",
    "Buffer.from('Z3LD\\nvMOfZQ==', 'base64').toString('utf8')",
    "Buffer.from('68c3a9zz', 'hex').toString()",
    "Buffer.from('hé').toString('hex')",
    "Buffer.from('hé', 'latin1').toString('binary')",
    "Buffer.concat([Buffer.from('a'), new Uint8Array([98])]).toString()",
    "Buffer.byteLength('é')",
    "JSON.stringify(Buffer.from('ab'))",
    "Buffer.from([1, 2, 300]).length",
    "Buffer.isBuffer(Buffer.from('a').subarray(0, 1))",
    "Buffer.alloc(3, 1).toString('hex')",
    "Buffer.from('abc').slice(1).toString()",
    "Buffer.from('abc').equals(Buffer.from('abc'))",
  ]);
});

it("clones as Node does", async () => {
  await alike([
    "structuredClone({ a: [1, { b: new Date(0) }], c: undefined })",
    "structuredClone(new Map([[1, new Set([2])]])).get(1).has(2)",
    "(() => { const a = { n: 1 }; a.self = a; const b = structuredClone(a); return b.self === b && b !== a; })()",
    "structuredClone(new Error('x')).message",
    "structuredClone(() => 1)",
  ]);
});

it("draws random numbers from the host, also for ids", async () => {
  const at = await hosted({
    "calendar/actions/it.ts": action(
      "return [crypto.randomUUID(), Array.from(crypto.getRandomValues(new Uint8Array(8))), Math.random(), Math.random()];",
    ),
  });
  const [id, bytes, a, b] = output(await at.run("it")) as [string, number[], number, number];
  expect(id).toMatch(/^[\da-f]{8}-[\da-f]{4}-4[\da-f]{3}-[89ab][\da-f]{3}-[\da-f]{12}$/);
  expect(new Set(bytes).size).toBeGreaterThan(3);
  expect(a).not.toBe(b);
  expect(a).toBeGreaterThanOrEqual(0);
  expect(a).toBeLessThan(1);
});

it("computes digests, by the names of node:crypto", async () => {
  const at = await hosted({
    "calendar/actions/it.ts": action(
      `return [createHash("sha256").update("a").update(Buffer.from("b")).digest("hex"),
        createHmac("sha1", "key").update("text").digest("base64"), randomBytes(4).length];`,
      'import { createHash, createHmac, randomBytes } from "node:crypto";',
    ),
  });
  expect(output(await at.run("it"))).toEqual([
    createHash("sha256").update("ab").digest("hex"),
    createHmac("sha1", "key").update("text").digest("base64"),
    4,
  ]);
});

it("waits by timers, in their order, and takes them back", async () => {
  const at = await hosted({
    "calendar/actions/it.ts": action(
      `const said: unknown[] = [];
       await new Promise<void>((resolve) => {
         setTimeout((a: string) => { said.push(a); resolve(); }, 60, "late");
         setTimeout(() => said.push("soon"), 10);
         const gone = setTimeout(() => said.push("never"), 20);
         clearTimeout(gone);
         let n = 0;
         const often = setInterval(() => { said.push(++n); if (n === 2) clearInterval(often); }, 5);
         queueMicrotask(() => said.push("now"));
       });
       return said;`,
    ),
  });
  const said = output(await at.run("it")) as unknown[];
  expect(said[0]).toBe("now");
  expect(said.at(-1)).toBe("late");
  expect([...said].sort()).toEqual([1, 2, "late", "now", "soon"].sort());
});

it("writes console output into the run's log", async () => {
  const at = await hosted({
    "calendar/actions/it.ts": action(
      `console.log("a", { b: 1 }, [2]); console.warn("w"); console.error(new Error("bad")); console.debug(undefined, null, 1n);
       const circle: any = {}; circle.me = circle; console.log(circle, Symbol("s"));
       await nango.log("with", { level: "error" }); await nango.log({ level: "warn" }); await nango.log("x", { level: "loud" });`,
    ),
  });
  const { lines } = await at.run("it");
  expect(lines.map(({ level, message }) => [level, message.split("\n")[0]])).toEqual([
    ["info", 'a {"b":1} [2]'],
    ["warn", "w"],
    ["error", "Error: bad"],
    ["debug", "undefined null 1"],
    ["info", "[object Object] Symbol(s)"],
    ["error", "with"],
    ["info", '{"level":"warn"}'],
    ["info", 'x {"level":"loud"}'],
  ]);
});

it("names the alternative to a missing global", async () => {
  const at = await hosted({
    "calendar/actions/net.ts": action("return new WebSocket('ws://x.test');"),
    "calendar/actions/intl.ts": action("return eval('new Intl.NumberFormat()');"),
  });
  expect(failure(await at.run("net")).message).toMatch(/no network access/);
  expect(failure(await at.run("intl")).message).toMatch(/no locale or time zone data/);
});
