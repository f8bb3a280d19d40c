import { expect, it } from "vitest";

import { callTool, count, follow, integration, modernCall, served, urlElicitation } from "./served.ts";

const action = (description: string) => `
  import { createAction } from "latchkey/scripts";
  export default createAction({ description: ${JSON.stringify(description)}, exec: async () => "done" });`;

it("lists pinned tools and a search beyond the limit, and calls what the search finds", async () => {
  const many = Object.fromEntries(
    Array.from({ length: 45 }, (_, i) => [
      `actions/step${String(i).padStart(2, "0")}.ts`,
      action(`Step ${i} of a plan.`),
    ]),
  );
  const all = await served({
    scripts: { ...many, "actions/count.ts": count, "actions/createInvoice.ts": action("Bills a customer.") },
    settings: { mcp: { pinned: ["sandbox-files_step0*"] } },
  });
  const listed = await modernCall(all, "tools/list");
  const names = listed.body.result.tools.map(({ name }: { name: string }) => name);
  expect(names.slice(0, 5)).toEqual([
    "search_tools",
    "call_tool",
    "list_connections",
    "connect_account",
    "provider_request",
  ]);
  expect(names.slice(5)).toEqual(Array.from({ length: 10 }, (_, i) => `sandbox-files_step0${i}`));
  const found = await callTool(all, "search_tools", { query: "create an invoice", limit: 3 });
  expect(found.result.structuredContent.tools[0]).toMatchObject({ name: "sandbox-files_createInvoice" });

  const asked = await callTool(all, "connect_account", { integration }, { capabilities: urlElicitation });
  await follow(all, asked.result.inputRequests.connect.params.url);
  const called = await callTool(all, "call_tool", { name: "sandbox-files_createInvoice", arguments: {} });
  expect(called.result.content).toEqual([{ type: "text", text: "done" }]);
  // A tool that is not listed can be called by its name as well.
  expect((await callTool(all, "sandbox-files_step44")).result.content[0].text).toBe("done");
  expect((await callTool(all, "call_tool", { name: "call_tool" })).result.isError).toBe(true);
  const last = all.sidecar.logged.findLast((line) => line.includes("a tool was called"));
  expect(JSON.parse(last ?? "{}")).toMatchObject({ tool: "sandbox-files_step44", connection: expect.any(String) });
});
