import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, it } from "vitest";
import { CredentialsSchema } from "../../../src/gen/latchkey/v1/credentials_pb.ts";
import { sidecarOfFile } from "../../support/sidecar/door.ts";
import { everyKind, integrationOf, setUpEveryKind } from "../../support/sidecar/every-kind.ts";
import { adminKey, temporaryFolder } from "../../support/sidecar/harness.ts";
import { launch } from "../../support/sidecar/process.ts";

const running = sidecarOfFile();

const show = async (provider_config_key: string, id: string) =>
  (await running().rest("GET", `/connections/${id}?provider_config_key=${provider_config_key}&refresh_token=true`)).body
    .credentials;

it("takes every kind of credentials that it shows, from POST /connections and from a file", {
  timeout: 30_000,
}, async () => {
  await setUpEveryKind(running());
  expect(everyKind).toHaveLength(CredentialsSchema.oneofs[0]?.fields.length ?? 0);
  const lines: string[] = [];
  for (const kind of everyKind) {
    const provider_config_key = integrationOf(kind);
    const import_ = (connection_id: string, credentials: object) => ({
      provider_config_key,
      connection_id,
      credentials,
    });
    const first = { type: kind.type, ...kind.whole((name) => `secret-${name}`) };
    const made = await running().rest("POST", "/connections", { body: import_("first", first) });
    expect([kind.type, made.status, made.body.error]).toEqual([kind.type, 201, undefined]);
    const shown = await show(provider_config_key, "first");
    expect(shown).toMatchObject(first);
    const again = await running().rest("POST", "/connections", { body: import_("second", shown) });
    expect([kind.type, again.status, again.body.error]).toEqual([kind.type, 201, undefined]);
    expect(await show(provider_config_key, "second")).toEqual(shown);
    lines.push(JSON.stringify(import_("third", shown)));
  }
  const folder = await temporaryFolder();
  const file = join(folder, "connections.ndjson");
  await writeFile(file, lines.join("\n"));
  const cli = launch(["connections", "import", file, "-e", "dev"], {
    folder,
    env: { LATCHKEY_CONTROL: running().control, LATCHKEY_KEY: adminKey },
  });
  expect(await cli.exited, cli.stdout() + cli.stderr()).toBe(0);
  for (const kind of everyKind) {
    const provider_config_key = integrationOf(kind);
    expect(await show(provider_config_key, "third")).toEqual(await show(provider_config_key, "first"));
  }
});
