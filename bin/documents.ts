/** Writes the generated pages of docs/, and the OpenAPI description of the JSON routes. */
import { spawnSync } from "node:child_process";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { DocumentName } from "./document-names.ts";
import { apiPage } from "./documents/api.ts";
import { catalogPage } from "./documents/catalog.ts";
import { configurationPage } from "./documents/configuration.ts";
import { errorsPage } from "./documents/errors.ts";
import { metricsPage } from "./documents/metrics.ts";
import { openApi } from "./documents/openapi.ts";
import { rpcPages } from "./documents/rpc.ts";
import { root } from "./steps.ts";

const [folder = root] = process.argv.slice(2);
const docs = join(folder, "docs");
mkdirSync(docs, { recursive: true });
const document = openApi();
const files: Readonly<Record<DocumentName, string>> = {
  "api.md": apiPage(document),
  "catalog.md": catalogPage(),
  "cli.md": cliPage(),
  "configuration.md": configurationPage(),
  "errors.md": errorsPage(),
  "metrics.md": metricsPage(),
  "openapi.json": `${JSON.stringify(document, undefined, 2)}\n`,
};
for (const [name, text] of Object.entries(files)) writeFileSync(join(docs, name), text);
const rpc = join(docs, "rpc");
// A page whose proto file is gone goes too.
rmSync(rpc, { recursive: true, force: true });
mkdirSync(rpc);
for (const [name, text] of rpcPages()) writeFileSync(join(rpc, name), text);

/** The command tree needs the whole program, which takes over its process. */
function cliPage(): string {
  const { status, stdout, stderr } = spawnSync(process.execPath, [join(root, "bin/documents/cli.ts")], {
    cwd: root,
    encoding: "utf8",
    env: { PATH: process.env["PATH"], NO_COLOR: "1" },
  });
  if (status !== 0) throw new Error(`the page of the command line failed: ${stderr}`);
  return stdout;
}
