import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, it } from "vitest";
import { sidecarOfFile } from "../../support/sidecar/door.ts";
import { adminKey, temporaryFolder } from "../../support/sidecar/harness.ts";
import { launch } from "../../support/sidecar/process.ts";

const running = sidecarOfFile();

const line = (more: object) =>
  JSON.stringify({
    provider_config_key: "keyed",
    credentials: { type: "API_KEY", apiKey: "a-key-of-someone" },
    ...more,
  });

it("names the fields of a line that latchkey refuses", async () => {
  const folder = await temporaryFolder();
  const file = join(folder, "connections.ndjson");
  const lines = [
    line({ connection_id: "one\n" }),
    line({ connection_id: "two", tags: { a: 1 } }),
    line({ connection_id: "three" }),
    line({ connection_id: "four", provider_config_key: "keyd" }),
  ];
  await writeFile(file, `${lines.join("\n")}\n`);
  const env = { LATCHKEY_CONTROL: running().control, LATCHKEY_KEY: adminKey };
  const imported = launch(["connections", "import", file, "-e", "dev"], { folder, env });
  expect(await imported.exited).toBe(3);
  const said = imported.stderr();
  expect(said).toContain("line 1: the connection is not valid: connection_id must be printable ASCII (invalid_body)\n");
  expect(said).toContain("line 2: tags.a must be text (invalid_body)\n");
  expect(said).toContain('line 4: there is no integration "keyd" in this environment (unknown_provider_config)\n');
  expect(said).not.toContain("a-key-of-someone");
});
