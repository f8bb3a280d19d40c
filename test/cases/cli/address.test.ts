import { readFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, it } from "vitest";
import { sidecarOfFile } from "../../support/sidecar/door.ts";
import { adminKey, keyedConnection, startTestSidecar, temporaryFolder } from "../../support/sidecar/harness.ts";
import { launch } from "../../support/sidecar/process.ts";
import { createAuthority } from "../control-plane/certificates.ts";

const running = sidecarOfFile();

async function command(env: Readonly<Record<string, string | undefined>>, ...args: readonly string[]) {
  const cli = launch(args.length === 0 ? ["environments", "list"] : args, {
    folder: await temporaryFolder(),
    env: { LATCHKEY_KEY: adminKey, LATCHKEY_CONTROL_LISTEN: undefined, ...env },
  });
  const code = await cli.exited;
  return { code, said: cli.stderr(), shown: cli.stdout() };
}

const hostOf = (address: string) => address.replace("http://", "");

it("reports that a plain port does not speak TLS", async () => {
  const { control } = running();
  const { code, said } = await command({ LATCHKEY_CONTROL: `https://${hostOf(control)}` });
  expect(code).toBe(1);
  expect(said).toContain(`https://${hostOf(control)} does not speak TLS (unavailable)`);
  expect(said).toContain(`use ${control}`);
  expect(said).not.toMatch(/openssl|internal/i);
});

it.each(["data", "ops"] as const)("reports that an address belongs to the %s listener", async (door) => {
  const { code, said } = await command({ LATCHKEY_CONTROL: running()[door] });
  expect(code).toBe(1);
  expect(said).toContain(`${running()[door]} is Latchkey's ${door} listener, not its control plane (unavailable)`);
  expect(said).toContain("LATCHKEY_CONTROL_LISTEN");
  expect(said).not.toContain("keys list");
});

it("reports that a port requires TLS, or that its certificate is not trusted", async () => {
  const authority = createAuthority(await temporaryFolder(), "authority");
  const { cert, key } = authority.issue("localhost", { names: "IP:127.0.0.1" });
  const secure = await startTestSidecar({
    env: { LATCHKEY_CONFIG: "/config" },
    files: {
      "/config": JSON.stringify({ tls: { control: { cert, key } } }),
      [cert]: readFileSync(cert, "utf8"),
      [key]: readFileSync(key, "utf8"),
    },
  });
  const host = secure.control.replace("https://", "");
  const plain = await command({ LATCHKEY_CONTROL: `http://${host}` });
  expect(plain.code).toBe(1);
  expect(plain.said).toContain(`http://${host} requires TLS (unavailable)`);
  expect(plain.said).toContain(`use https://${host}`);
  const untrusted = await command({ LATCHKEY_CONTROL: `https://${host}` });
  expect(untrusted.said).toContain("is not trusted (unavailable)");
  expect(untrusted.said).toContain("NODE_EXTRA_CA_CERTS");
  const trusted = await command({ LATCHKEY_CONTROL: `https://${host}`, NODE_EXTRA_CA_CERTS: authority.cert });
  expect([trusted.code, trusted.said]).toEqual([0, ""]);
});

it("reports that nothing listens, or that a key is unknown", async () => {
  const nothing = await command({ LATCHKEY_CONTROL: "http://127.0.0.1:9" });
  expect(nothing.said).toContain("the control plane cannot be reached (unavailable)");
  expect(nothing.said).toContain("is Latchkey running at http://127.0.0.1:9?");
  const wrong = await command({ LATCHKEY_CONTROL: running().control, LATCHKEY_KEY: "lk_not-a-key-of-this-one" });
  expect(wrong.said).toContain("the key is not known (unknown_key)");
});

it("explains the form of LATCHKEY_CONTROL", async () => {
  for (const address of ["nonsense", "two words", "http://127.0.0.1:3004/path"]) {
    const { code, said } = await command({ LATCHKEY_CONTROL: address });
    expect([code, said]).toEqual([
      2,
      expect.stringContaining("LATCHKEY_CONTROL must be http://host:port, host:port or"),
    ]);
  }
});

it("uses LATCHKEY_CONTROL_LISTEN of the shell, unless LATCHKEY_CONTROL is set", async () => {
  const host = hostOf(running().control);
  const port = host.split(":")[1];
  for (const listen of [host, `:${port}`, `0.0.0.0:${port}`]) {
    const { code, said } = await command({ LATCHKEY_CONTROL_LISTEN: listen });
    expect([code, said], listen).toEqual([0, ""]);
  }
  const other = await command({ LATCHKEY_CONTROL_LISTEN: host, LATCHKEY_CONTROL: "http://127.0.0.1:9" });
  expect(other.said).toContain("http://127.0.0.1:9?");
});

it("counts imported and failed items separately", async () => {
  const file = join(await temporaryFolder(), "connections.ndjson");
  const lines = [keyedConnection("a"), keyedConnection("b"), { connection_id: "c" }, { connection_id: "d" }];
  await writeFile(file, lines.map((line) => JSON.stringify(line)).join("\n"));
  const env = { LATCHKEY_CONTROL: running().control };
  const { code, said, shown } = await command(env, "connections", "import", file, "-e", "dev");
  expect(code).toBe(3);
  expect(said + shown).toContain("imported 2 of 4 connections (2 new, 2 failed)");
});

it("names the length limit of a channel's id", async () => {
  await running().rest("POST", "/connections", { body: keyedConnection("ada") });
  const env = { LATCHKEY_CONTROL: running().control };
  const { code, said } = await command(env, "channels", "create", "keyed/ada", "--id", "x".repeat(65), "-e", "dev");
  expect(code).toBe(1);
  expect(said).toMatch(/id: .*at most 64 characters/);
});

it("explains a base URL override with http", async () => {
  const answer = await running().rest("GET", "/proxy/x", {
    headers: {
      "provider-config-key": "keyed",
      "connection-id": "ada",
      "base-url-override": "http://api.example",
    },
  });
  expect([answer.status, answer.body.error?.code]).toEqual([403, "host_not_allowed"]);
  expect(answer.body.error.message).toContain("must begin with https://");
  expect(answer.body.error.message).toContain("LATCHKEY_ALLOW_PRIVATE");
});
