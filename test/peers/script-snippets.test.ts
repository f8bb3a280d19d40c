import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, it, onTestFinished } from "vitest";
import { createLog } from "../../src/base/log.ts";
import { createScriptHost } from "../../src/scripts/host.ts";

const page = readFileSync(fileURLToPath(new URL("../../docs/syncs-and-actions.md", import.meta.url)), "utf8");

/** Where the page says that its scripts are. */
const files = ["files/syncs/documents.ts", "files/actions/count.ts", "files/events/welcome.ts"];

it("loads the scripts of the page about syncs and actions", async () => {
  const folder = mkdtempSync(join(tmpdir(), "latchkey-scripts-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const whole = [...page.matchAll(/^```ts\n([\s\S]*?)^```$/gm)]
    .map(([, code = ""]) => code)
    .filter((code) => code.includes("export default"));
  expect(whole).toHaveLength(files.length);
  for (const [i, file] of files.entries()) {
    expect(page).toContain(`scripts/${file}`);
    mkdirSync(dirname(join(folder, file)), { recursive: true });
    writeFileSync(join(folder, file), whole[i] ?? "");
  }
  const log = createLog({ level: "error", format: "pretty", write: () => {} });
  const host = await createScriptHost({ folder, world: { log, now: Date.now }, isOwnPath: () => false });
  onTestFinished(() => host.close());
  expect(host.broken()).toEqual([]);
  expect(host.all().map(({ kind, name }) => `${kind} ${name}`)).toEqual([
    "sync documents",
    "action count",
    "event welcome",
  ]);
});
