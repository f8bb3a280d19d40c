import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { runCli } from "../../../src/cli/program.ts";
import { Integration_UseRecord, IntegrationService } from "../../../src/gen/latchkey/v1/integration_pb.ts";
import { PolicyService } from "../../../src/gen/latchkey/v1/policy_pb.ts";
import { startProvider, startProxied } from "../../support/peers/provider.ts";
import { adminKey } from "../../support/sidecar/harness.ts";
import { memoryTerminal } from "../cli/memory-terminal.ts";

async function runCommand(argv: readonly string[], env: Readonly<Record<string, string>> = {}) {
  const terminal = memoryTerminal({ env });
  const code = await runCli(argv, terminal, []);
  return { code, stdout: terminal.out(), stderr: terminal.err() };
}

function filesIn(files: Readonly<Record<string, string>>): (name: string) => string {
  const folder = mkdtempSync(join(tmpdir(), "latchkey-policies-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text);
  return (name) => join(folder, name);
}

const denies = (condition: string) => `policies:
  - id: candidate
    environment: dev
    effect: deny
    condition: ${condition}
`;

it("checks a file without a running Latchkey, with line and column", async () => {
  const path = filesIn({ "good.yaml": denies('request.method == "GET"'), "bad.yaml": denies("request.pth == 1") });
  expect(await runCommand(["policies", "check", path("good.yaml")])).toMatchObject({ code: 0 });
  const { code, stdout } = await runCommand(["policies", "check", path("bad.yaml")]);
  expect([code, stdout]).toEqual([1, expect.stringContaining("bad.yaml:5:16: policies[0].condition: `request` has")]);
});

it("creates, lists, explains and deletes, and replays recorded requests against a candidate", async () => {
  const provider = await startProvider();
  const running = await startProxied(provider.port);
  const env = { LATCHKEY_KEY: adminKey, LATCHKEY_CONTROL: running.control };
  const latchkey = (...args: readonly string[]) => runCommand([...args, "-e", "dev"], env);
  await running.client(IntegrationService).updateIntegration({
    integration: { environment: "dev", key: "here", useRecord: Integration_UseRecord.PATH },
    updateMask: { paths: ["use_record"] },
  });
  const rule = ["--effect", "deny", "--condition", 'request.method == "DELETE"', "--description", "people delete"];
  expect((await latchkey("policies", "create", "no-deletes", ...rule)).code).toBe(0);
  expect((await latchkey("policies", "list")).stdout).toContain("no-deletes");
  const explain = ["policies", "explain", "--connection", "here/ada", "--path", "/repos/a", "--method"];
  const refused = await latchkey(...explain, "DELETE");
  expect([refused.code, refused.stdout]).toEqual([
    1,
    expect.stringContaining('the policy "no-deletes" (people delete)'),
  ]);
  expect((await latchkey(...explain, "GET")).code).toBe(0);

  const used = () => running.logged.filter((line) => line.includes("a connection was used"));
  for (const at of ["/repos/a?token=x", "/repos/b", "/public"]) {
    await running.rest("GET", `/proxy${at}`, { headers: running.proxyHeaders });
  }
  await expect.poll(() => used().length).toBe(3);
  const path = filesIn({
    "recorded.ndjson": `${running.logged.join("\n")}\n`,
    "changes.yaml": denies('request.path.startsWith("/repos/")'),
    "same.yaml": denies('request.path.startsWith("/elsewhere")'),
    "unknown.yaml": denies('request.path == "/public" && request.headers["x-team"] == "red"'),
  });
  const replay = (file: string, ...more: readonly string[]) =>
    latchkey("policies", "test", path("recorded.ndjson"), "--candidate", path(file), ...more);
  const changes = await replay("changes.yaml");
  expect(changes.code).toBe(1);
  expect(changes.stdout.trim().split("\n")).toEqual([
    expect.stringMatching(/ GET 127\.0\.0\.1:\d+\/repos\/a key=secret-key .*: allowed -> denied \(candidate\)$/),
    expect.stringMatching(/\/repos\/b .*allowed -> denied/),
  ]);
  expect(await replay("same.yaml")).toMatchObject({ code: 0, stdout: "" });
  const unknown = await replay("unknown.yaml");
  expect([unknown.code, unknown.stdout]).toEqual([1, expect.stringContaining("/public ")]);
  expect(unknown.stderr).toContain("request.headers is not recorded");
  expect((await replay("unknown.yaml", "--allow-unknown")).code).toBe(0);

  expect((await latchkey("policies", "delete", "no-deletes", "--yes")).code).toBe(0);
  expect((await running.client(PolicyService).listPolicies({ environment: "dev" })).policies).toEqual([]);
});
