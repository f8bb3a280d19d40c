import { expect, it } from "vitest";
import { parse } from "yaml";
import { startTestSidecar, temporaryFolder } from "../../support/sidecar/harness.ts";
import { launch, type Running } from "../../support/sidecar/process.ts";

async function sandboxIn(args: readonly string[] = []): Promise<Running> {
  return launch(["sandbox", "--listen", "127.0.0.1:0", ...args], { folder: await temporaryFolder() });
}

it("serves until a signal, and every printed command works", async () => {
  const running = await sandboxIn();
  await running.says("Stop with Ctrl-C.");
  const text = running.stdout();
  const [, origin = ""] = /The sandbox is at (http:\S+):/.exec(text) ?? [];
  const [, token = ""] = /drive\/v3\/files\?pageSize=10' -H 'Authorization: Bearer ([^']+)'/.exec(text) ?? [];
  const [, refreshToken = ""] = /refresh_token=(sbx_\S+)/.exec(text) ?? [];
  const [, behaviour = ""] = /-d '({"answers".*})'/.exec(text) ?? [];

  const files = await fetch(`${origin}/drive/v3/files?pageSize=10`, { headers: { authorization: `Bearer ${token}` } });
  expect(((await files.json()) as { files: unknown[] }).files).toHaveLength(10);
  const refresh = async () => {
    const response = await fetch(`${origin}/oauth2/token`, {
      method: "POST",
      headers: { authorization: `Basic ${Buffer.from("sandbox:sandbox-secret").toString("base64")}` },
      body: new URLSearchParams({ grant_type: "refresh_token", refresh_token: refreshToken }),
    });
    return response.status;
  };
  await fetch(`${origin}/_sandbox/behaviour`, { method: "PUT", body: behaviour });
  expect([await refresh(), await refresh(), await refresh(), await refresh()]).toEqual([400, 400, 200, 400]);

  running.child.kill("SIGTERM");
  expect(await running.exited).toBe(0);
  await expect(fetch(origin)).rejects.toThrow();
});

it("prints a configuration with which latchkey takes its providers", async () => {
  const running = await sandboxIn();
  await running.says("Stop with Ctrl-C.");
  const [, allowed = "", snippet = ""] =
    /LATCHKEY_ALLOW_PRIVATE=(\S+) and this[^\n]*\n\n([\s\S]*?)\nStop with/.exec(running.stdout()) ?? [];
  expect(parse(snippet).providers).toHaveLength(7);
  const { rest } = await startTestSidecar({
    env: { LATCHKEY_ALLOW_PRIVATE: allowed, LATCHKEY_CONFIG: "/latchkey.yaml" },
    files: { "/latchkey.yaml": snippet },
  });
  const made = await rest("POST", "/integrations", { body: { unique_key: "mine", provider: "sandbox-calendar" } });
  expect(made.status).toBe(200);
});

it("prints the same as one line of JSON", async () => {
  const running = await sandboxIn(["--json", "--origin", "http://localhost:3010"]);
  await running.says("\n");
  const { origin, client, tokens, allow_private, providers } = JSON.parse(running.stdout());
  expect([origin, allow_private]).toEqual(["http://localhost:3010", "http://localhost:3010"]);
  expect(client).toEqual({ id: "sandbox", secret: "sandbox-secret" });
  expect(tokens.access_token).toMatch(/^sbx_at_/);
  expect(providers).toHaveLength(7);
  running.child.kill("SIGINT");
  expect(await running.exited).toBe(0);
});

it.each([
  [["--listen", "unix:/tmp/x"], "--listen"],
  [["--listen", "nonsense"], "--listen"],
  [["--origin", "http://x/path"], "--origin"],
])("refuses %j", async (args, named) => {
  const running = launch(["sandbox", ...args], { folder: await temporaryFolder() });
  expect(await running.exited).toBe(2);
  expect(running.stderr()).toContain(named);
});

it("reports its port in use, and exits", async () => {
  const first = await sandboxIn(["--json"]);
  await first.says("\n");
  const { origin } = JSON.parse(first.stdout()) as { origin: string };
  const second = await sandboxIn(["--listen", new URL(origin).host]);
  expect(await second.exited).toBe(1);
  expect(second.stderr()).toContain("EADDRINUSE");
});
