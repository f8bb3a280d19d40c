import { execFile, execFileSync } from "node:child_process";
import { existsSync, writeFileSync } from "node:fs";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { javaTrustStore } from "../../../src/cli/commands/run/java-trust-store.ts";
import { runChild, type SignalSource } from "../../../src/cli/process/child-program.ts";
import { runCli } from "../../../src/cli/program.ts";
import type { ChildProgram } from "../../../src/cli/terminal/terminal.ts";
import {
  apiHost,
  type ForwardProxied,
  sendConnect,
  startForwardProxied,
  startTlsProvider,
  type TlsProvider,
} from "../../support/peers/forward-proxied.ts";
import { adminKey, secretKey } from "../../support/sidecar/harness.ts";
import { lacks } from "../../support/sidecar/needs.ts";
import { memoryTerminal } from "../cli/memory-terminal.ts";

describe.skipIf(lacks("openssl"))("latchkey run", () => {
  let provider: TlsProvider;
  let sidecar: ForwardProxied;
  let folder = "";

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "latchkey-run-test-"));
    provider = await startTlsProvider();
    const integrations = {
      here: { baseUrl: `https://${apiHost}:${provider.port}`, connections: ["ada", "bob"] },
    };
    const config = JSON.stringify({ access_sessions: { longest_life: "2h" } });
    const env = { LATCHKEY_CONFIG: "/config" };
    sidecar = await startForwardProxied(provider, { folder, integrations, env, files: { "/config": config } });
  });
  afterAll(async () => {
    await sidecar?.stop();
    provider?.close();
    await rm(folder, { recursive: true, force: true });
  });

  /** Runs the command line; `program` takes the place of the process that it starts. */
  async function latchkey(words: readonly string[], key: string, program: (program: ChildProgram) => Promise<number>) {
    const env = { LATCHKEY_KEY: key, PATH: process.env["PATH"] ?? "", NODE_OPTIONS: "--no-warnings" };
    const terminal = memoryTerminal({ env });
    const code = await runCli(["run", "--address", sidecar.control, ...words], { ...terminal, runProgram: program });
    return { code, stderr: terminal.err() };
  }

  const fetching = `
    const { status } = await fetch("https://${apiHost}:PORT/run");
    process.exit(status === 200 ? 0 : 1);`;

  it("gives one command a session for its connections, and ends it afterwards", async () => {
    let seen: ChildProgram | undefined;
    const words = ["--connection", "here/ada", "--", process.execPath, "--input-type=module", "-e"];
    const { code, stderr } = await latchkey(
      [...words, fetching.replace("PORT", String(provider.port))],
      adminKey,
      async (program) => {
        seen = program;
        await promisify(execFile)(program.command, [...program.args], { env: program.env });
        return 7;
      },
    );
    // The configuration allows less than the day that is asked for.
    const [, endsAt = ""] = /^the program's access ends at (\S+), /.exec(stderr) ?? [];
    expect([code, stderr.match(/\n/g)?.length]).toEqual([7, 1]);
    expect((Date.parse(endsAt) - Date.now()) / 60_000).toBeCloseTo(120, -1);
    const { env = {} } = seen ?? {};
    expect(Object.values(env).join(" ")).not.toContain(adminKey);
    expect(env["LATCHKEY_KEY"]).toBe(undefined);
    expect(env["NO_PROXY"]).toBe("localhost,127.0.0.1,::1");
    expect(env["NODE_OPTIONS"]).toMatch(/^--no-warnings --require "/);
    expect(env["JAVA_TOOL_OPTIONS"]).toContain("-Dhttps.proxyHost=127.0.0.1");
    expect(env["CHROMIUM_FLAGS"]).toContain("--proxy-server=127.0.0.1:");
    expect(existsSync(env["SSL_CERT_FILE"] ?? "/")).toBe(false);
    // The session is gone with the command.
    const authorization = `Basic ${Buffer.from(decodeURIComponent(new URL(env["HTTPS_PROXY"] ?? "").password)).toString("base64")}`;
    const after = await sendConnect(sidecar.proxy, `${apiHost}:${provider.port}`, { authorization });
    expect(after.status).toBe(407);
  });

  it.skipIf(process.platform !== "linux")("starts a browser of PATH with the flags that it needs", async () => {
    const bin = join(folder, "a bin");
    await mkdir(bin);
    await writeFile(join(bin, "chromium"), '#!/bin/sh\nprintf "%s\\n" "$0" "$@"\n', { mode: 0o755 });
    let said = "";
    const env = { LATCHKEY_KEY: secretKey, PATH: `${bin}:/usr/bin:/bin` };
    const terminal = memoryTerminal({ env });
    const runProgram = async ({ command, args, env: own }: ChildProgram) => {
      said = (await promisify(execFile)(command, [...args], { env: own })).stdout;
      return 0;
    };
    const words = ["run", "--address", sidecar.control, "--", "chromium", "https://a.test/it's here", "--last"];
    expect(await runCli(words, { ...terminal, runProgram })).toBe(0);
    const [program, proxy, trust, profile, ...rest] = said.trimEnd().split("\n");
    expect(program).toBe(join(bin, "chromium"));
    expect(proxy).toMatch(/^--proxy-server=127\.0\.0\.1:\d+$/);
    expect(trust).toMatch(/^--ignore-certificate-errors-spki-list=[\w+/]{43}=/);
    expect(profile).toMatch(/^--user-data-dir=\//);
    expect(rest).toEqual(["https://a.test/it's here", "--last"]);
  });

  it("makes a session with the key of an environment, and uses the key itself without connections", async () => {
    const keyOf = async (words: readonly string[]) => {
      let url = "";
      await latchkey([...words, "--", "true"], secretKey, async ({ env }) => {
        url = env["https_proxy"] ?? "";
        return 0;
      });
      return new URL(url).password;
    };
    expect(await keyOf(["--connection", "here/bob"])).toMatch(/^lks_/);
    expect(await keyOf([])).toBe(secretKey);
  });

  it("says what is missing", async () => {
    const { code, stderr } = await latchkey(["--connection", "here/", "--", "true"], adminKey, async () => 0);
    expect([code, stderr]).toEqual([2, expect.stringContaining("must be integration/connection")]);
  });
});

describe("a program in place of the command", () => {
  const keyboard: SignalSource = { passTo: () => () => {}, hasKeyboard: false };
  const run = (script: string, signals = keyboard) =>
    runChild({ command: "sh", args: ["-c", script], env: { PATH: process.env["PATH"] ?? "" } }, signals);

  it("ends with its exit code, or that of its signal, as in a shell", async () => {
    expect(await run("exit 3")).toBe(3);
    expect(await run("kill -TERM $$")).toBe(143);
    expect(await runChild({ command: "/nowhere/at-all", args: [], env: {} }, keyboard)).toBe(127);
  });

  it("gets the signals of this process", async () => {
    let pass: Parameters<SignalSource["passTo"]>[0] = () => {};
    const signals: SignalSource = {
      hasKeyboard: false,
      passTo(receive) {
        pass = receive;
        return () => {};
      },
    };
    const ended = run("trap 'exit 9' TERM; while :; do sleep 0.05; done", signals);
    const again = setInterval(() => pass("SIGTERM"), 200);
    expect(await ended).toBe(9);
    clearInterval(again);
  });
});

it.skipIf(lacks("openssl") || lacks("java"))(
  "makes a trust store that Java reads",
  async () => {
    const folder = await mkdtemp(join(tmpdir(), "latchkey-java-"));
    const key = join(folder, "key.pem");
    const args = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=a"];
    const pem = execFileSync("openssl", [...args, "-keyout", key], {
      encoding: "utf8",
      stdio: ["ignore", "pipe", "ignore"],
    });
    writeFileSync(join(folder, "ca.jks"), javaTrustStore(pem + pem, Date.now()));
    const program = `import java.security.*; import java.io.*;
    public class Read { public static void main(String[] words) throws Exception {
      KeyStore store = KeyStore.getInstance("JKS");
      store.load(new FileInputStream(words[0]), "changeit".toCharArray());
      System.out.println(store.size() + " " + store.isCertificateEntry("authority-1")); } }`;
    writeFileSync(join(folder, "Read.java"), program);
    const said = execFileSync("java", [join(folder, "Read.java"), join(folder, "ca.jks")], { encoding: "utf8" });
    expect(said.trim()).toBe("2 true");
    await rm(folder, { recursive: true, force: true });
  },
  60_000,
);
