import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { toJson } from "@bufbuild/protobuf";
import { ValueSchema } from "@bufbuild/protobuf/wkt";
import { expect, it } from "vitest";
import { SyncService } from "../../../src/gen/latchkey/v1/sync_pb.ts";
import { startScripted } from "./scripting.ts";

/** The members that the types declare to a script's author. */
function declared(name: string): { methods: string[]; values: string[] } {
  const text = readFileSync(fileURLToPath(new URL("../../../src/scripts/sdk.ts", import.meta.url)), "utf8");
  const [, body = ""] = new RegExp(`export interface ${name}[^{]*\\{\\n([\\s\\S]*?)\\n\\}`).exec(text) ?? [];
  const methods = [...body.matchAll(/^ {2}(\w+)(?:<[^(]*>)?\(/gm)].map(([, one = ""]) => one);
  const values = [...body.matchAll(/^ {2}readonly (\w+)[?]?:/gm)].map(([, one = ""]) => one);
  return { methods, values };
}

const kinds = {
  action: declared("NangoAction"),
  sync: declared("NangoSync"),
};
/** Members that exist for migrated scripts, and are not declared. */
const refused = ["uncontrolledFetch"];

const walk = `
  const own = Object.keys(nango);
  const kinds = Object.fromEntries(own.map((name) => [name, typeof nango[name]]));
  const answers = {};
  for (const name of own.filter((one) => kinds[one] === "function" && one !== "ActionError" && one !== "uncontrolledFetch")) {
    try {
      const answer = nango[name]({});
      if (typeof answer?.next === "function") await answer.next();
      else await answer;
      answers[name] = "answered";
    } catch (error) {
      answers[name] = error.code === "unknown_tool" || /is not a function|no nango/.test(error.message) ? "missing" : "answered";
    }
  }`;

it("has every method of its types, answers each, and has no others", async () => {
  expect(kinds.action.methods).toContain("paginate");
  expect(kinds.sync.methods).toContain("batchSave");
  const started = await startScripted({
    "actions/walk.ts": `
      import { createAction } from "latchkey/scripts";
      export default createAction({ description: "", exec: async (nango: any) => { ${walk} return { kinds, answers }; } });`,
    "syncs/walk.ts": `
      import { createSync } from "latchkey/scripts";
      import * as z from "zod";
      export default createSync({ description: "", frequency: "1d", models: { Thing: z.object({ id: z.string() }) },
        exec: async (nango: any) => { ${walk} throw new nango.ActionError({ kinds, answers }); } });`,
  });
  await started.connect("ada");
  await started.run();
  const client = started.sidecar.client(SyncService);
  const { run: action } = await client.runAction({ connection: started.ref("ada"), name: "walk" });
  const { runs } = await client.listRuns({ environment: "dev", script: "walk" });
  const { run: sync } = await client.getRun({
    environment: "dev",
    id: runs.find(({ problem }) => problem !== undefined)?.id ?? "",
  });
  for (const [ran, said] of [
    [action, [kinds.action]],
    [sync, [kinds.action, kinds.sync]],
  ] as const) {
    if (ran?.output === undefined) throw new Error("it gave nothing");
    // The script's output: two objects of texts.
    const { kinds: own, answers } = toJson(ValueSchema, ran.output) as Record<string, Record<string, string>>;
    const methods = said.flatMap((one) => one.methods);
    const values = said.flatMap((one) => one.values);
    expect(Object.keys(own ?? {}).toSorted()).toEqual([...methods, ...values, ...refused].toSorted());
    expect(Object.keys(answers ?? {}).toSorted()).toEqual(methods.toSorted());
    expect(Object.entries(answers ?? {}).filter(([, answer]) => answer !== "answered")).toEqual([]);
  }
});
