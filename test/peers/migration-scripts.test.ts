import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect, it, onTestFinished } from "vitest";
import { EnvironmentService } from "../../src/gen/latchkey/v1/environment_pb.ts";
import { secretKey, startTestSidecar } from "../support/sidecar/harness.ts";

// The two scripts of docs/migrate-from-nango.md, run as they are printed. An environment of a sidecar stands in for the
// peer, whose routes it answers; another one is the target.

const page = readFileSync(fileURLToPath(new URL("../../docs/migrate-from-nango.md", import.meta.url)), "utf8");

/** Returns the page's code block that follows the words "Save this as `<file>`". */
function script(file: string): string {
  const [, code] = new RegExp(`Save this as \`${file}\`[\\s\\S]*?\`\`\`js\\n([\\s\\S]*?)\`\`\``).exec(page) ?? [];
  if (code === undefined) throw new Error(`the page has no ${file}`);
  return code;
}

it("moves integrations and connections to another environment, as the page says", async () => {
  const sidecar = await startTestSidecar();
  const folder = mkdtempSync(join(tmpdir(), "latchkey-migration-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const environments = sidecar.client(EnvironmentService);
  await environments.createEnvironment({ name: "target" });
  const { secret: target } = await environments.createKey({ environment: "target" });
  const env = {
    ...process.env,
    NANGO_HOST: sidecar.data,
    NANGO_SECRET_KEY: secretKey,
    LATCHKEY_HOST: sidecar.data,
    LATCHKEY_SECRET_KEY: target,
  };
  const run = (file: string) => {
    writeFileSync(join(folder, file), script(file));
    return promisify(execFile)(process.execPath, [file], { cwd: folder, env });
  };

  const oauth = {
    type: "OAUTH2",
    client_id: "id",
    client_secret: "secret",
    scopes: "repo,gist",
    webhook_secret: "hush",
  };
  for (const body of [
    { unique_key: "keyed", provider: "example-api-key", display_name: "Keyed" },
    { unique_key: "github", provider: "github", credentials: oauth },
  ]) {
    expect(await sidecar.rest("POST", "/integrations", { body })).toMatchObject({ status: 200 });
  }
  const full = {
    provider_config_key: "github",
    connection_id: "ada/1",
    credentials: { type: "OAUTH2", access_token: "token", refresh_token: "refresh", raw: { scope: "repo" } },
    metadata: { folder: "inbox" },
    connection_config: { installation_id: "42" },
    tags: { team: "sales" },
    end_user: { id: "u1", email: "ada@example.com" },
    webhook_url_override: "https://app.example.com/hooks",
  };
  const ended = { type: "OAUTH2", access_token: "token", expires_at: "2020-01-01T00:00:00Z" };
  const others = Array.from({ length: 101 }, (_, i) => ({
    provider_config_key: "keyed",
    connection_id: `c${i}`,
    credentials: { type: "API_KEY", apiKey: `key-${i}` },
  }));
  for (const body of [full, { ...full, connection_id: "dead", credentials: ended }, ...others]) {
    expect(await sidecar.rest("POST", "/connections", { body })).toMatchObject({ status: 201 });
  }

  expect((await run("integrations.mjs")).stdout.split("\n").toSorted()).toEqual([
    "",
    "github: created",
    "keyed: created",
  ]);
  const moved = await sidecar.rest("GET", "/integrations/github?include=credentials", { key: target });
  expect(moved.body.data).toMatchObject({ provider: "github", credentials: oauth });

  const { stdout, stderr } = await run("export.mjs");
  expect(stderr).toMatch(/^github\/dead: 424 .*reauthorization_required/);
  const lines = stdout.trim().split("\n");
  expect(lines).toHaveLength(102);
  const stored = await Promise.all(lines.map((body) => sidecar.rest("POST", "/connections", { body, key: target })));
  expect(new Set(stored.map(({ status }) => status))).toEqual(new Set([201]));
  const query = "provider_config_key=github&refresh_token=true";
  const read = async (key: string) => {
    const { body } = await sidecar.rest("GET", `/connections/ada%2F1?${query}`, { key });
    const { id: _, created_at: __, updated_at: ___, last_fetched_at: ____, ...same } = body;
    return same;
  };
  expect(await read(target)).toEqual(await read(secretKey));
});
