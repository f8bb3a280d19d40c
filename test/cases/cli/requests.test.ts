import { expect, it } from "vitest";
import { runCli } from "../../../src/cli/program.ts";
import { startProvider, startProxied } from "../../support/peers/provider.ts";
import { adminKey } from "../../support/sidecar/harness.ts";
import { memoryTerminal } from "./memory-terminal.ts";

it("sends a request with a control key, lists it, and counts it", async () => {
  const provider = await startProvider();
  const { control } = await startProxied(provider.port);
  const run = async (...argv: readonly string[]) => {
    const env = { LATCHKEY_CONTROL: control, LATCHKEY_ADMIN_KEY: adminKey, LATCHKEY_ENVIRONMENT: "dev", NO_COLOR: "1" };
    const terminal = memoryTerminal({ env });
    const code = await runCli(argv, terminal);
    return { code, out: terminal.out(), err: terminal.err() };
  };
  const sent = await run("requests", "send", "here/ada", "post", "/made?a=b", "-d", "hello", "-H", "X-Own: 1", "-i");
  expect([sent.code, sent.err]).toEqual([0, ""]);
  expect(sent.out).toMatch(/^200 in [\d.]+ ms, of which Latchkey [\d.]+ ms\n/);
  expect(sent.out).toContain('{"line":"POST /made?a=b HTTP/1.1","body":"hello"}');
  const refused = await run("requests", "send", "here/ada", "GET", "/../x");
  expect([refused.code, refused.err]).toEqual([1, expect.stringContaining("(invalid_path)")]);

  const listed = await run("requests", "--of", "here/ada");
  expect([listed.code, listed.err]).toEqual([0, ""]);
  expect(listed.out).toMatch(/^WHEN\s+STATUS\s+METHOD\s+PATH\s+CONNECTION\s+TOOK/);
  expect(listed.out).toMatch(/200 +POST +\/made\?… +here\/ada/);
  expect(listed.out).toContain("400 invalid_path");
  const bad = await run("requests", "list", "--by-latchkey", "--json");
  expect(JSON.parse(bad.out)).toMatchObject({ error_code: "invalid_path", status: 400 });

  const all = await run("requests", "stats");
  expect(all.out).toMatch(/^INTEGRATION +REQUESTS[\s\S]*\nhere +2 +0 +1 [\s\S]*\nall +2 +0 +1 /);
  const one = await run("requests", "stats", "here", "--since", "10m", "--step", "5m");
  expect(one.out.trim().split("\n")).toHaveLength(4);
  expect((await run("requests", "stats", "nothing")).err).toContain("no requests");
});
