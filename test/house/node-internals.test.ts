import { readdirSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";

const src = fileURLToPath(new URL("../../src", import.meta.url));
const folder = "base/node/";
/** Signs of a use that Node does not document. Guests run in an engine of their own, not in Node. */
const internals =
  /\._(?:handle|server|events|[a-z]+State)\b|\b_handle\b|writeLatin1String|writeUtf8String|setFlagsFromString|internalBinding|process\.binding|\bgc\b\(|emit\(\s*"(?:connection|listening)"|"node:internal|firstGoaway/;

const files = readdirSync(src, { recursive: true, encoding: "utf8" }).filter(
  (file) => file.endsWith(".ts") && !file.startsWith("gen/") && !file.startsWith("scripts/guest/"),
);

it("keeps uses of Node's undocumented behavior in one folder", () => {
  const found = files.filter(
    (file) => !file.startsWith(folder) && internals.test(readFileSync(join(src, file), "utf8")),
  );
  expect(found).toEqual([]);
});

it("has a row in the table for each such use", () => {
  const table = readFileSync(join(src, folder, "README.md"), "utf8");
  const uses = files.filter((file) => file.startsWith(folder) && internals.test(readFileSync(join(src, file), "utf8")));
  expect(uses.filter((file) => !table.includes(`| [\`${basename(file)}\`]`))).toEqual([]);
});
