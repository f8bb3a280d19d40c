import { expect, it } from "vitest";
import { action, hosted, output } from "./hosting.ts";

const body = (more = "null") => `
  const schema = z.object({ id: z.string(), when: z.iso.date().optional(), none: z.null().optional() });
  const { success, error } = schema.safeParse({ id: 7 });
  return [success, error instanceof z.ZodError, error.issues[0].path, schema.parse({ id: "a" }), ${more}];`;
const expected = [false, true, ["id"], { id: "a" }];

it("gives zod to scripts in each way of asking for it", async () => {
  const files = {
    named: action(body(), 'import { z } from "zod";'),
    star: action(body(), 'import * as z from "zod";'),
    usual: action(body(), 'import z from "zod";'),
    fourth: action(body(), 'import { z } from "zod/v4";'),
    words: action(
      "return [nothing().safeParse(null).success, union([literal(1), nothing()]).safeParse(2).success];",
      'import { null as nothing, union, literal } from "zod";',
    ),
    both: action(
      body("fourth.string() instanceof z.ZodString"),
      'import { z } from "zod"; import * as fourth from "zod/v4";',
    ),
    old: action(
      "return [z.iso.date().safeParse('2026-01-01').success, t.string()._def.typeName];",
      'import { z } from "zod"; import * as t from "zod/v3";',
    ),
    mini: action(
      "return m.safeParse(m.object({ id: m.string() }), { id: 7 }).success;",
      'import * as m from "zod/mini";',
    ),
    third: action("return t.object({ id: t.string() }).safeParse({ id: 7 }).success;", 'import * as t from "zod/v3";'),
  };
  const at = await hosted(
    Object.fromEntries(Object.entries(files).map(([name, text]) => [`calendar/actions/${name}.ts`, text])),
  );
  expect(at.host.broken()).toEqual([]);
  for (const name of ["named", "star", "usual", "fourth"]) {
    expect([name, output(await at.run(name))]).toEqual([name, [...expected, null]]);
  }
  expect(output(await at.run("both"))).toEqual([...expected, true]);
  expect(output(await at.run("old"))).toEqual([true, "ZodString"]);
  expect(output(await at.run("words"))).toEqual([true, false]);
  expect(output(await at.run("mini"))).toBe(false);
  expect(output(await at.run("third"))).toBe(false);
});

it("isolates one script's changes to zod from all others", async () => {
  const changed =
    'Object.defineProperty(globalThis, "__seen", { value: 1 }); z.ZodString.prototype.hacked = 1; z.globalRegistry.hacked = 1;';
  const at = await hosted({
    "calendar/actions/changes.ts": action(`${changed} return 1;`, 'import { z } from "zod";'),
    "calendar/actions/looks.ts": action(
      "return [typeof globalThis.__seen, z.string().hacked ?? null, z.globalRegistry.hacked ?? null];",
      'import { z } from "zod";',
    ),
  });
  await at.run("changes");
  expect(output(await at.run("looks"))).toEqual(["undefined", null, null]);
});

it("reports an unknown name of zod, with its line", async () => {
  const at = await hosted({ "calendar/actions/it.ts": action("return nothing;", 'import { nothing } from "zod";') });
  const [broken] = at.host.broken();
  expect(broken?.mistakes[0]).toMatchObject({
    message: expect.stringContaining('"nothing"'),
    file: "calendar/actions/it.ts",
    line: 2,
  });
});
