import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { follow, served } from "../cases/mcp-endpoint/served.ts";
import { secretKey, temporaryFolder } from "../support/sidecar/harness.ts";
import { lacks } from "../support/sidecar/needs.ts";

const program = fileURLToPath(new URL("clients/node_modules/.bin/mcp-inspector", import.meta.url));

it.skipIf(lacks("clients")).each(["legacy", "modern"])(
  "shows the MCP Inspector tools, a link, the result after it, and errors: %s",
  async (era) => {
    const all = await served();
    const home = await temporaryFolder();

    /** Runs one command of the Inspector: it keeps nothing for the next. */
    // biome-ignore lint/suspicious/noExplicitAny: a test says itself what it expects of a result.
    const inspect = async (method: string, ...more: readonly string[]): Promise<any> => {
      const server = ["--cli", `${all.sidecar.data}/mcp`, "--header", `Authorization: Bearer ${secretKey}`];
      const given = [...server, "--protocol-era", era, "--format", "json", "--method", method, ...more];
      const env = { PATH: process.env["PATH"], HOME: home };
      return new Promise((resolve, reject) =>
        execFile(process.execPath, [program, ...given], { env }, (_, stdout, stderr) => {
          // A result that is an error ends the Inspector with a code, and is printed as well.
          if (stdout === "") reject(new Error(stderr));
          else resolve(JSON.parse(stdout).result);
        }),
      );
    };
    const count = (text: string) =>
      inspect("tools/call", "--tool-name", "sandbox-files_count", "--tool-args-json", JSON.stringify({ text }));

    const names = (await inspect("tools/list")).tools.map(({ name }: { name: string }) => name);
    expect(names).toContain("sandbox-files_count");
    const [, link = ""] = /link, then call the tool again: (\S+)$/.exec((await count("Q")).content[0].text) ?? [];
    await follow(all, link);
    expect((await count("Q")).structuredContent).toEqual({ count: expect.any(Number) });
    const refused = await count("");
    expect(refused.isError).toBe(true);
    expect(refused.content[0].text).toContain("text must not be empty");
  },
);
