import { expect, it, vi } from "vitest";
import { action, failure, hosted, output } from "./hosting.ts";

/** The lines of the file that it is made of. */
const lineOf = (text: string, part: string) => text.split("\n").findIndex((line) => line.includes(part)) + 1;

it("names the line that requested the failing page, list, metadata or input", async () => {
  const bodies = {
    paged: `for await (const page of nango.paginate({ endpoint: "/", paginate:
      { type: "cursor", cursor_path_in_response: "next", cursor_name_in_request: "c", response_path: "list" } })) page.pop();`,
    refused: `for await (const page of nango.paginate({ endpoint: "/", paginate: { type: "magic" } })) page.pop();`,
    input: `await nango.zodValidateInput({ zodSchema: z.object({ a: z.string() }), input: {} }); // nango.paginate`,
  };
  for (const [name, body] of Object.entries(bodies)) {
    const text = action(body, 'import { z } from "zod";');
    const at = await hosted({ [`calendar/actions/${name}.ts`]: text });
    let pages = 0;
    const ran = await at.run(name, {
      tool: (tool) => {
        if (tool !== "proxy") return null;
        pages += 1;
        return { status: 200, headers: {}, data: pages < 3 ? { list: [1], next: "x" } : { list: 7 } };
      },
    });
    const { stack } = failure(ran);
    expect([name, stack[0]]).toEqual([
      name,
      expect.stringMatching(new RegExp(`^calendar/actions/${name}\\.ts:${lineOf(text, "nango.paginate")}:\\d+$`)),
    ]);
    if (name === "paged") expect(pages).toBe(3);
  }
});

it("refuses a file that uses Intl, with its line, and not one that asks for it first or means a type", async () => {
  const uses = action('return new Intl.DateTimeFormat("de").format(0);');
  const at = await hosted({
    "calendar/actions/uses.ts": uses,
    "calendar/actions/helped.ts": action("return helped();", 'import { helped } from "../lib/helped.ts";'),
    "calendar/lib/helped.ts": "export const helped = () =>\n  Intl.NumberFormat('de').format(1);\n",
    "calendar/actions/asks.ts": action(
      'return typeof Intl === "undefined" ? "none" : new Intl.Collator().resolvedOptions();',
    ),
    "calendar/actions/means.ts": action(
      'const how: Intl.NumberFormatOptions = {}; return ["Intl.x", how];',
      "// Intl.NumberFormat",
    ),
  });
  const message = "Intl is not available: scripts have no locale or time zone data";
  expect(at.host.broken().map(({ name, mistakes }) => ({ name, mistakes }))).toEqual([
    { name: "helped", mistakes: [{ message, file: "calendar/lib/helped.ts", line: 2, column: 3 }] },
    {
      name: "uses",
      mistakes: [{ message, file: "calendar/actions/uses.ts", line: lineOf(uses, "Intl"), column: expect.any(Number) }],
    },
  ]);
  expect(output(await at.run("asks"))).toBe("none");
  expect(output(await at.run("means"))).toEqual(["Intl.x", {}]);
});

it("decodes the map of a file once, however often the file uses Intl", async () => {
  const parsed = vi.spyOn(JSON, "parse");
  const uses = Array.from({ length: 200 }, (_, i) => `new Intl.NumberFormat("de").format(${i});`);
  const text = action(uses.join("\n"));
  const at = await hosted({ "calendar/actions/uses.ts": text });
  const maps = parsed.mock.calls.filter(([read]) => read.includes('"mappings"'));
  parsed.mockRestore();
  const [{ mistakes } = { mistakes: [] }] = at.host.broken();
  const first = lineOf(text, "Intl");
  expect(mistakes.map(({ line }) => line)).toEqual(uses.map((_, i) => first + i));
  expect(maps).toHaveLength(1);
});

it("reports missing languages instead of returning wrong results", async () => {
  const at = await hosted({
    "calendar/actions/it.ts": action("return [() => (5).toLocaleString(), input][1] && eval(input);"),
  });
  for (const asked of [
    "new Date(0).toLocaleDateString('de-DE')",
    "new Date(0).toLocaleString(undefined, { timeZone: 'Asia/Tokyo' })",
    "(1234.5).toLocaleString('de')",
    "'a'.localeCompare('b', 'sv')",
    "new globalThis.Intl.Collator()",
    "Intl.Collator()",
  ]) {
    const { message } = failure(await at.run("it", { input: asked }));
    expect([asked, message]).toEqual([
      asked,
      expect.stringMatching(/does not support locales|no locale or|not a constructor|undefined/),
    ]);
  }
  expect(output(await at.run("it", { input: "['b', 'a'].sort((a, b) => a.localeCompare(b)).join()" }))).toBe("a,b");
  expect(output(await at.run("it", { input: "(5).toLocaleString()" }))).toBe("5");
});
