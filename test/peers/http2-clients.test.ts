import { execFile } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";
import { startHttp2Provider } from "../support/peers/http2-provider.ts";
import { startProvider, startProxied } from "../support/peers/provider.ts";
import { temporaryFolder } from "../support/sidecar/harness.ts";
import { lacks } from "../support/sidecar/needs.ts";

/** Programs that speak HTTP/2, and know of nothing else. */

const ways = [
  ["HTTP/1.1", async () => startProxied((await startProvider()).port)],
  [
    "HTTP/2",
    async () => {
      const { port } = await startHttp2Provider();
      return startProxied(port, { provider: { proxy: { baseUrl: `https://127.0.0.1:${port}`, http2Only: true } } });
    },
  ],
] as const;

async function run(program: string, args: readonly string[]): Promise<string> {
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !/_proxy$/i.test(name)));
  const { stdout } = await promisify(execFile)(program, args, { timeout: 30_000, env, maxBuffer: 64 * 1024 * 1024 });
  return stdout;
}

const linesOf = (headers: Readonly<Record<string, string>>): readonly string[] =>
  Object.entries(headers).flatMap(([name, value]) => ["-H", `${name}: ${value}`]);

describe.each(ways)("to a provider that speaks %s", (protocol, start) => {
  it.skipIf(lacks("curl"))("curl speaks HTTP/2 with prior knowledge", async () => {
    const { data, proxyHeaders } = await start();
    const args = ["-sS", "--http2-prior-knowledge", "--max-time", "20", ...linesOf(proxyHeaders)];
    const said = await run("curl", [...args, "-w", "%{http_version} %{http_code}", `${data}/proxy/a?b=c`]);
    expect(said).toMatch(/}2 200$/);
    expect(said).toContain("/a?b=c");
    const file = join(await temporaryFolder(), "large");
    await writeFile(file, "x".repeat(2_000_000));
    const large = await run("curl", [...args, "--data-binary", `@${file}`, `${data}/proxy/up`]);
    expect(JSON.parse(large).body).toHaveLength(2_000_000);
    // Over HTTP/1.1 with an offer to upgrade, which latchkey ignores.
    const offered = args.map((one) => (one === "--http2-prior-knowledge" ? "--http2" : one));
    expect(await run("curl", [...offered, "-w", "%{http_version}", `${data}/proxy/a`])).toMatch(/}1\.1$/);
    expect(protocol).toMatch(/^HTTP/);
  });

  it.skipIf(lacks("nghttp"))("nghttp gets its responses, many at a time", async () => {
    const { data, proxyHeaders } = await start();
    const said = await run("nghttp", ["-v", "-n", "-m", "20", ...linesOf(proxyHeaders), `${data}/proxy/a`]);
    expect(said.match(/:status: 200/g)).toHaveLength(20);
    expect(said).not.toMatch(/RST_STREAM|error_code=(?!NO_ERROR)/);
  });

  it.skipIf(lacks("nghttp"))("h2load has all of its requests answered", async () => {
    const { data, proxyHeaders, metric } = await start();
    const said = await run("h2load", [
      "-n",
      "2000",
      "-c",
      "4",
      "-m",
      "25",
      ...linesOf(proxyHeaders),
      `${data}/proxy/a`,
    ]);
    expect(said).toContain("2000 succeeded, 0 failed, 0 errored, 0 timeout");
    expect(said).toContain("status codes: 2000 2xx");
    expect(await metric("latchkey_proxy_open")).toBe(0);
  });
});
