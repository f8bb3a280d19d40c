import { expect, it } from "vitest";
import type { ScriptToolTarget } from "../../../../src/core/mcp-endpoint/tool.ts";
import { toolsByName } from "../../../../src/core/mcp-endpoint/tool-names.ts";
import { actionArguments, readActionArguments } from "../../../../src/core/mcp-endpoint/tool-schemas.ts";
import { searchTools } from "../../../../src/core/mcp-endpoint/tool-search.ts";

const script = {
  integration: "",
  version: "1",
  description: "",
  changedMs: 0,
  scopes: [],
  metadata: undefined,
  endpoints: [],
  input: undefined,
  output: undefined,
};
const action = (integration: string, name: string): ScriptToolTarget => ({
  kind: "action",
  integration,
  script: { ...script, kind: "action", name, integration, mcp: { kind: "tool", answers: "output" } },
});

it("gives each tool a name that clients take, whatever the order of the scripts", () => {
  const long = "a".repeat(80);
  const targets = [
    action("a", "b_c"),
    action("a_b", "c"),
    action("files", "count"),
    action("x:y", "z"),
    action(long, "b"),
  ];
  const names = [...toolsByName(targets).keys()];
  expect(names).toEqual([...toolsByName(targets.toReversed()).keys()]);
  expect(new Set(names).size).toBe(5);
  expect(names.every((name) => /^[A-Za-z0-9_-]{1,64}$/.test(name))).toBe(true);
  expect(names).toContain("files_count");
  expect(names).toContain("x_y_z");
  // Neither of two that would share a name has it: a rule about it means none of them.
  expect(names.filter((name) => name.startsWith("a_b_c"))).toEqual([
    expect.stringMatching(/^a_b_c_[0-9a-f]{8}$/),
    expect.stringMatching(/^a_b_c_[0-9a-f]{8}$/),
  ]);
  expect([...toolsByName([action("search", "tools")]).keys()]).toEqual([expect.stringMatching(/^search_tools_/)]);
});

it("reads the input of a script from arguments, wrapped where it is no object", () => {
  const text = { type: "string" };
  expect(actionArguments({ input: text, hasChoice: true })).toMatchObject({ required: ["input"] });
  expect(readActionArguments({ input: "x", connection: "ada" }, text)).toEqual({ connection: "ada", input: "x" });
  const own = { type: "object", properties: { connection: text } };
  expect(readActionArguments({ input: { connection: "of the script" } }, own)).toEqual({
    connection: undefined,
    input: { connection: "of the script" },
  });
  const noted = { type: "object", properties: { region: { type: "string", "x-mcp-header": "Region" } } };
  expect(JSON.stringify(actionArguments({ input: noted, hasChoice: false }))).not.toContain("x-mcp-header");
  expect(readActionArguments({}, undefined)).toEqual({ connection: undefined, input: undefined });
});

it("finds tools by words of names before those of descriptions", () => {
  const tools = [
    { name: "crm_list_Contact", description: "Contacts, for which invoices are written." },
    { name: "books_createInvoice", description: "Bills a customer." },
  ];
  expect(searchTools(tools, "invoice").map(({ name }) => name)).toEqual(["books_createInvoice", "crm_list_Contact"]);
  expect(searchTools(tools, "weather")).toEqual([]);
  expect(searchTools(tools, "")).toHaveLength(2);
});
