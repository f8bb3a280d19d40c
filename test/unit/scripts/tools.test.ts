import { fileURLToPath } from "node:url";
import type { JsonValue } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";
import { ToolFailure } from "../../../src/core/scripts/script.ts";
import { action, failure, hosted, hostedFrom, output, type RunOptions } from "./hosting.ts";

const fixtures = fileURLToPath(new URL("fixtures", import.meta.url));
const answer = (data: JsonValue, headers = {}): JsonValue => ({ status: 200, headers, data });

async function one(body: string, options?: RunOptions, imports?: string) {
  const at = await hosted({ "calendar/actions/it.ts": action(body, imports) });
  return await at.run("it", options);
}

describe("scripts as customers have them", () => {
  it("runs a sync: metadata, checkpoint, pages, records", async () => {
    const at = await hostedFrom(fixtures);
    const event = (id: string) => ({ id, summary: `Event ${id}`, start: { date: "2026-11-22" } });
    const ran = await at.run("events", {
      kind: "sync",
      lastSyncDate: "2026-11-21T00:00:00.000Z",
      tool(tool, [config]) {
        if (tool === "getMetadata") return { calendarId: "a b" };
        if (tool === "getCheckpoint") return { syncToken: "before" };
        if (tool !== "proxy") return null;
        const { params } = config as { params: { pageToken?: string } };
        return params.pageToken === undefined
          ? answer({ items: [event("1"), event("2")], nextPageToken: "two" })
          : answer({ items: [event("3")] });
      },
    });
    expect(output(ran)).toBeUndefined();
    const asked = { updatedMin: "2026-11-21T00:00:00.000Z", syncToken: "before", maxResults: 2 };
    expect(ran.calls).toEqual([
      { tool: "getMetadata", given: [] },
      { tool: "getCheckpoint", given: [] },
      { tool: "paginationOf", given: [] },
      {
        tool: "proxy",
        given: [{ endpoint: "/calendar/v3/calendars/a%20b/events", params: asked, retries: 10 }],
      },
      {
        tool: "batchSave",
        given: [
          [
            { id: "1", summary: "Event 1", start: "2026-11-22" },
            { id: "2", summary: "Event 2", start: "2026-11-22" },
          ],
          "Event",
        ],
      },
      {
        tool: "proxy",
        given: [
          { endpoint: "/calendar/v3/calendars/a%20b/events", params: { ...asked, pageToken: "two" }, retries: 10 },
        ],
      },
      { tool: "batchSave", given: [[{ id: "3", summary: "Event 3", start: "2026-11-22" }], "Event"] },
      { tool: "saveCheckpoint", given: [{ syncToken: "next" }] },
    ]);
    expect(ran.lines.map(({ message }) => message)).toEqual(["next: two", "next: undefined"]);
  });

  it("hands a notification to onWebhook", async () => {
    const at = await hostedFrom(fixtures);
    const ran = await at.run("events", {
      kind: "sync",
      entry: "onWebhook",
      input: { id: "e1" },
      tool: (tool) => (tool === "proxy" ? answer({ id: "e1", start: { dateTime: "now" } }) : null),
    });
    expect(output(ran)).toBeUndefined();
    expect(ran.lines).toEqual([{ level: "debug", message: 'notified {"id":"e1"}' }]);
    expect(ran.calls.at(-1)).toEqual({
      tool: "batchSave",
      given: [[{ id: "e1", summary: null, start: "now" }], "Event"],
    });
  });

  it("runs an action with the input and output of its schemas", async () => {
    const at = await hostedFrom(fixtures);
    const ran = await at.run("create-event", {
      input: { summary: "Lunch" },
      tool: () => answer({ id: "e1", htmlLink: "https://x.test/e1" }),
    });
    expect(output(ran)).toEqual({ id: "e1", link: "https://x.test/e1" });
    expect(ran.calls[0]).toMatchObject({
      tool: "proxy",
      given: [{ method: "POST", data: { summary: "Lunch", end: { dateTime: "1970-01-01T00:30:00.000Z" } } }],
    });

    expect(failure(await at.run("create-event", { input: { summary: "" } }))).toMatchObject({
      code: "invalid_input",
      message: expect.stringMatching(/^input\.summary: /),
      payload: [{ path: "summary", message: expect.any(String) }],
    });
    expect(failure(await at.run("create-event"))).toMatchObject({ code: "invalid_input" });
    const wrong = await at.run("create-event", { input: { summary: "x" }, tool: () => answer({ id: "e1" }) });
    expect(failure(wrong)).toMatchObject({ code: "invalid_output", message: expect.stringMatching(/^output\.link: /) });
    const none = await at.run("create-event", { input: { summary: "x" }, tool: () => answer({}) });
    expect(failure(none)).toEqual({
      code: "action_error",
      message: "The event was not created",
      payload: { type: "not_created", message: "The event was not created" },
      stack: [expect.stringMatching(/^calendar\/actions\/create-event\.ts:\d+:\d+$/)],
    });
  });

  it("continues after a caught refusal, such as the stop of a channel", async () => {
    const at = await hostedFrom(fixtures);
    const ran = await at.run("stop-watching", {
      kind: "event",
      tool(tool) {
        if (tool === "getMetadata") return { calendarChannelId: "c", calendarResourceId: "r" };
        throw new ToolFailure("provider_refused", "answered with 404", { details: { response: { status: 404 } } });
      },
    });
    expect(output(ran)).toBeUndefined();
    expect(ran.lines).toMatchObject([
      { level: "error", message: expect.stringContaining("the channel could not be stopped Error: answered with 404") },
    ]);
  });

  it("reports metadata that do not match their schema", async () => {
    const at = await hostedFrom(fixtures);
    const ran = await at.run("stop-watching", { kind: "event", tool: () => ({ calendarChannelId: 5 }) });
    expect(failure(ran)).toMatchObject({
      code: "invalid_input",
      message: expect.stringMatching(/^metadata\.calendarChannelId: /),
    });
  });
});

describe("a script's data", () => {
  it("has facts of itself, and asks for the rest by name", async () => {
    const at = await hosted({
      "calendar/syncs/it.ts": `import { createSync } from "nango"; import { z } from "zod";
        export default createSync({ description: "", frequency: "1d", models: { M: z.object({ id: z.string() }) },
          exec: async (nango: any) => {
            await nango.log([nango.connectionId, nango.providerConfigKey, nango.provider, nango.environmentName, nango.variant,
              nango.activityLogId, nango.lastSyncDate instanceof Date, nango.lastSyncDate]);
            const { getConnection } = nango;
            await getConnection();
            await nango.getIntegration({ include: ["webhook"] });
            await nango.setMetadata({ a: 1 });
            await nango.getEnvironmentVariables();
            await nango.triggerSync("calendar", "ada", "other", true);
            await nango.triggerAction("calendar", "ada", "act", { in: 1 });
            await nango.batchDelete([{ id: "1" }], "M");
            await nango.batchUpdate([], "M");
            await nango.clearCheckpoint();
            await nango.trackDeletesStart("M");
            await nango.trackDeletesEnd("M");
            await nango.deleteRecordsFromPreviousExecutions("M");
            await nango.setMergingStrategy({ strategy: "override" }, "M");
            const found = await nango.getRecordsByIds(["1", 2, "3"], "M");
            await nango.log([found instanceof Map, [...found]]);
          } });`,
    });
    const ran = await at.run("it", {
      kind: "sync",
      lastSyncDate: "2026-11-21T00:00:00.000Z",
      tool: (tool) =>
        tool === "getRecordsByIds"
          ? [
              { id: "1", v: 1 },
              { id: "2", v: 2 },
            ]
          : null,
    });
    expect(output(ran)).toBeUndefined();
    expect(ran.lines.map(({ message }) => JSON.parse(message) as unknown)).toEqual([
      ["ada", "calendar", "google-calendar", "dev", "base", "run-1", true, "2026-11-21T00:00:00.000Z"],
      [
        true,
        [
          ["1", { id: "1", v: 1 }],
          [2, { id: "2", v: 2 }],
        ],
      ],
    ]);
    expect(ran.calls.map(({ tool, given }) => [tool, ...given])).toEqual([
      ["getConnection"],
      ["getIntegration", { include: ["webhook"] }],
      ["setMetadata", { a: 1 }],
      ["getEnvironmentVariables"],
      ["triggerSync", "calendar", "ada", "other", true],
      ["triggerAction", "calendar", "ada", "act", { in: 1 }],
      ["batchDelete", [{ id: "1" }], "M"],
      ["batchUpdate", [], "M"],
      ["clearCheckpoint"],
      ["trackDeletesStart", "M"],
      ["trackDeletesEnd", "M"],
      ["deleteRecordsFromPreviousExecutions", "M"],
      ["getRecordsByIds", ["1", 2, "3"], "M"],
    ]);
  });

  it("refuses a way of merging that there is not", async () => {
    const at = await hosted({
      "calendar/syncs/it.ts": `import { createSync } from "nango";
        export default createSync({ description: "", frequency: "1d", models: {},
          exec: (nango: any) => nango.setMergingStrategy({ strategy: "ignore_if_modified_after" }, "M") });`,
    });
    expect(failure(await at.run("it", { kind: "sync" })).message).toMatch(
      /"ignore_if_modified_after" is not supported/,
    );
  });

  it("catches a refusal with its code, its answer and the calling line", async () => {
    const ran = await one(
      `try { await nango.post({ endpoint: "/x", data: { a: 1 } }); } catch (error: any) {
         return { is: error instanceof Error, message: error.message, code: error.code, response: error.response };
       }`,
      {
        tool() {
          const details = { response: { status: 422, headers: { a: "b" }, data: { why: "no" } }, message: "not this" };
          throw new ToolFailure("provider_refused", "422", { details });
        },
      },
    );
    expect(output(ran)).toEqual({
      is: true,
      message: "422",
      code: "provider_refused",
      response: { status: 422, headers: { a: "b" }, data: { why: "no" } },
    });
    const thrown = await one("await nango.get({ endpoint: '/x' });", {
      tool() {
        throw new ToolFailure("provider_refused", "no");
      },
    });
    expect(failure(thrown)).toMatchObject({
      code: "script_error",
      message: "no",
      stack: ["calendar/actions/it.ts:7:7"],
    });
  });

  it("ends a run for an internal error, and does not give its reason", async () => {
    const ran = await one("try { await nango.get({ endpoint: '/' }); } catch {}", {
      tool() {
        throw new Error("a secret of the store");
      },
    });
    expect(failure(ran)).toEqual({
      code: "host_error",
      message: "nango.proxy failed with an internal error",
      stack: [],
    });
  });

  it("sends forms and bytes, and receives bytes", async () => {
    const ran = await one(
      `await nango.post({ endpoint: "/form", data: new URLSearchParams({ a: "b c" }), params: new URLSearchParams("x=1") });
       await nango.put({ endpoint: "/bytes", data: Buffer.from("hé") });
       const { data } = await nango.get({ endpoint: "/", responseType: "arraybuffer" });
       return [Buffer.isBuffer(data), data.toString()];`,
      { tool: () => ({ status: 200, headers: {}, dataBase64: Buffer.from("grüß").toString("base64") }) },
    );
    expect(output(ran)).toEqual([true, "grüß"]);
    expect(ran.calls.map(({ given }) => given[0])).toMatchObject([
      { data: "a=b+c", params: "x=1", headers: { "content-type": "application/x-www-form-urlencoded" } },
      { dataBase64: Buffer.from("hé").toString("base64") },
      {},
    ]);
  });

  it("sends a long list in pieces", async () => {
    const ran = await one(
      `const save = (n: number, size: number) => Array.from({ length: n }, (_, i) => ({ id: String(i), text: "x".repeat(size) }));
       void save; return 1;`,
    );
    expect(output(ran)).toBe(1);
    const at = await hosted({
      "calendar/syncs/it.ts": `import { createSync } from "nango";
        export default createSync({ description: "", frequency: "1d", models: {}, exec: async (nango: any) => {
          await nango.batchSave(Array.from({ length: 2_500 }, (_, i) => ({ id: String(i) })), "M");
          await nango.batchSave(Array.from({ length: 20 }, (_, i) => ({ id: String(i), text: "x".repeat(100_000) })), "M");
        } });`,
    });
    const { calls } = await at.run("it", { kind: "sync" });
    expect(calls.map(({ given }) => (given[0] as unknown[]).length)).toEqual([
      ...Array<number>(10).fill(250),
      ...Array<number>(20).fill(1),
    ]);
  });

  it("validates input by hand, with zod 3's name for it", async () => {
    const ran = await one(
      "return await nango.zodValidateInput({ zodSchema: z.object({ a: z.string() }), input });",
      { input: { a: 1 } },
      'import { z } from "zod";',
    );
    expect(failure(ran)).toMatchObject({ code: "action_error", payload: { message: "Invalid input" } });
    expect(ran.lines[0]).toMatchObject({ level: "error", message: expect.stringContaining("at path a") });
  });

  it("reads schemas of zod 3", async () => {
    const ran = await one(
      "return [z.string().safeParse('a').success, await nango.zodValidateInput({ zodSchema: z.object({ a: z.string() }), input })];",
      { input: { a: "b" } },
      'import { z } from "zod/v3";',
    );
    expect(output(ran)).toEqual([true, { success: true, data: { a: "b" } }]);
  });

  it("fails with the stack of the customer's own files, through their imports", async () => {
    const at = await hosted({
      "calendar/actions/it.ts": action("  return deep(input);", 'import { deep } from "../deep.js";'),
      "calendar/deep.ts": `interface Unused { readonly a: string }
export function deep(value: unknown): unknown {
  return deeper(value);
}
function deeper(value: unknown): unknown {
  throw new TypeError(\`not \${String(value)}\`);
}
`,
    });
    expect(failure(await at.run("it", { input: 5 }))).toEqual({
      code: "script_error",
      message: "TypeError: not 5",
      stack: ["calendar/deep.ts:6:9", "calendar/deep.ts:3:10", "calendar/actions/it.ts:7:10"].map((line) =>
        expect.stringMatching(line.replace(/:\d+$/, ":\\d+$")),
      ),
    });
  });

  it("fails where a timer throws", async () => {
    const ran = await one("setTimeout(() => { throw new Error('late'); }, 5); await nango.get({ endpoint: '/' });", {
      tool: () => new Promise(() => undefined),
    });
    expect(failure(ran)).toMatchObject({ code: "script_error", message: expect.stringContaining("late") });
  });

  it("answers with a machine's worth of an answer", async () => {
    const ran = await one("const { data } = await nango.get({ endpoint: '/' }); return data.length;", {
      tool: () => answer("é".repeat(2_000_000)),
    });
    expect(output(ran)).toBe(2_000_000);
    const tooMuch = await one("const { data } = await nango.get({ endpoint: '/' }); return data.length;", {
      tool: () => answer("x".repeat(80_000_000)),
    });
    expect(failure(tooMuch)).toMatchObject({ code: "memory" });
  });
});

describe("pages", () => {
  const pages = async (config: string, tool: RunOptions["tool"], usual: JsonValue = null) => {
    const ran = await one(
      `const all: unknown[] = []; for await (const page of nango.paginate(${config})) all.push(page); return all;`,
      { tool: (name, given) => (name === "paginationOf" ? usual : tool?.(name, given)) },
    );
    return { ran, asked: ran.calls.slice(1).map(({ given }) => given[0]) };
  };

  it("continues by an offset, counted in items or pages", async () => {
    const lists = [[1, 2], [3, 4], [5]];
    let n = 0;
    const next = () => answer({ list: lists[n++] ?? [] });
    const how =
      "type: 'offset', offset_name_in_request: 'skip', response_path: 'list', limit: 2, limit_name_in_request: 'top'";
    const { ran, asked } = await pages(`{ endpoint: "/", params: { a: 1 }, paginate: { ${how} } }`, next);
    expect(output(ran)).toEqual(lists);
    expect(asked.map((one) => (one as { params: unknown }).params)).toEqual([
      { a: 1, top: 2, skip: "0" },
      { a: 1, top: 2, skip: "2" },
      { a: 1, top: 2, skip: "4" },
    ]);
    n = 0;
    const byPage = await pages(
      `{ endpoint: "/", paginate: { ${how}, offset_start_value: 1, offset_calculation_method: 'per-page' } }`,
      next,
    );
    expect(byPage.asked.map((one) => (one as { params: { skip: string } }).params.skip)).toEqual(["1", "2", "3"]);
  });

  it("follows links of a header, to another path or another origin", async () => {
    const links: Record<string, string> = {
      "/a": '<https://api.x.test/b?page=2&x=%2F>; rel="next", <https://api.x.test/z>; rel="last"',
      "/b?page=2&x=%2F": '</c>; rel=prev, </d,e>; rel="other next"',
    };
    const { ran, asked } = await pages(
      '{ endpoint: "/a", params: { first: 1 }, paginate: { response_path: "" } }',
      (_, [config]) => {
        const { endpoint } = config as { endpoint: string };
        return answer([endpoint], { link: links[endpoint] ?? "" });
      },
      { type: "link", link_rel_in_response_header: "next", response_path: "list" },
    );
    expect(output(ran)).toEqual([["/a"], ["/b?page=2&x=%2F"], ["/d,e"]]);
    expect(asked).toEqual([
      { endpoint: "/a", params: { first: 1 } },
      { endpoint: "/b?page=2&x=%2F", baseUrlOverride: "https://api.x.test" },
      { endpoint: "/d,e" },
    ]);
  });

  it("follows a link in the body, and ends where it leads to itself", async () => {
    const { ran } = await pages(
      '{ endpoint: "/a", paginate: { type: "link", link_path_in_response_body: "links.next", response_path: "list" } }',
      () => answer({ list: [1], links: { next: "/a?2" } }),
    );
    expect(output(ran)).toEqual([[1], [1]]);
  });

  it("puts a cursor into a body, within another field", async () => {
    let n = 0;
    const { ran, asked } = await pages(
      `{ method: "POST", endpoint: "/", data: { query: "q", page: { size: 5 } },
         paginate: { type: "cursor", cursor_path_in_response: "meta.next", cursor_name_in_request: "page.after", response_path: "list" } }`,
      () => answer({ list: [n++], meta: { next: n < 2 ? 7 : "" } }),
    );
    expect(output(ran)).toEqual([[0], [1]]);
    expect(asked.map((one) => (one as { data: unknown }).data)).toEqual([
      { query: "q", page: { size: 5 } },
      { query: "q", page: { size: 5, after: 7 } },
    ]);
  });

  it.each([
    ['{ endpoint: "/" }', /the provider declares no pagination/],
    ['{ endpoint: "/", paginate: { type: "cursor" } }', /`cursor_name_in_request` must be set/],
    ['{ endpoint: "/", paginate: { type: "offset" } }', /`offset_name_in_request` must be set/],
    ['{ endpoint: "/", paginate: { type: "link" } }', /must be set for links/],
    ['{ endpoint: "/", paginate: { type: "magic" } }', /must be cursor, link or offset, not "magic"/],
    ['{ endpoint: "/", paginate: { type: "offset", offset_name_in_request: "a" } }', /the response is no list/],
  ])("reports what is missing in %s", async (config, message) => {
    const { ran } = await pages(config, () => answer({ not: "a list" }));
    expect(failure(ran).message).toMatch(message);
  });
});
