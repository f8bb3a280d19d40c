import { type ChildProcess, execFileSync, spawn, spawnSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import type { ServerResponse } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, it } from "vitest";
import { writeBrowserLaunchers } from "../../src/cli/commands/run/browser-launchers.ts";
import { type LocalPort, openLocalPort } from "../../src/cli/commands/run/local-port.ts";
import { programEnvironment } from "../../src/cli/commands/run/program-environment.ts";
import { writeProgramFiles } from "../../src/cli/commands/run/program-files.ts";
import {
  apiHost,
  basic,
  demanding,
  type ForwardProxied,
  providerToken,
  type SeenRequest,
  startForwardProxied,
  startTlsProvider,
  type TlsProvider,
} from "../support/peers/forward-proxied.ts";
import { secretKey } from "../support/sidecar/harness.ts";
import { lacks } from "../support/sidecar/needs.ts";

/** Programs that know nothing of Latchkey: `latchkey run` sets their environment, and nothing else. */
describe.skipIf(lacks("openssl") || lacks("lowPorts"))(
  "programs behind the forward proxy",
  { concurrent: true },
  () => {
    let provider: TlsProvider;
    let sidecar: ForwardProxied;
    let localPort: LocalPort | undefined;
    let env: Record<string, string>;
    const folder = mkdtempSync(join(tmpdir(), "latchkey-programs-"));
    const at = (name: string) => join(folder, name);
    const api = `https://${apiHost}`;

    beforeAll(async () => {
      makeRepository(at("repositories"));
      if (!lacks("pip")) makeWheel(at("probe.whl"));
      writeFileSync(at("package.tgz"), nodePackage(at("node")));
      // Programs name no port, so the provider has that of https, at an address of its own.
      const [b, c, d] = randomBytes(3);
      const listen = { host: `127.${b}.${c}.${Math.max(2, d ?? 0)}`, port: 443 };
      const names = [apiHost, "api.github.com", "api.stripe.com", "www.googleapis.com"];
      provider = await startTlsProvider({ answer, names, listen });
      const integrations = Object.fromEntries(names.map((name, i) => [`api-${i}`, { baseUrl: `https://${name}` }]));
      sidecar = await startForwardProxied(provider, { folder: at("store"), names, integrations });
      const uid = process.getuid?.() ?? 0;
      localPort = await openLocalPort({ proxy: sidecar.proxy, authorization: basic("latchkey", secretKey), uid });
      const files = await writeProgramFiles(folder, sidecar.ca);
      const program = { proxyUrl: sidecar.proxyUrl, files, authorities: sidecar.ca, localPort };
      const path = process.env["PATH"] ?? "";
      const launchers = await writeBrowserLaunchers({ folder: at("bin"), path, program });
      const plain = Object.fromEntries(
        Object.entries(process.env).filter(([name]) => !/proxy|^NODE_OPTIONS$/i.test(name)),
      );
      env = { ...programEnvironment(plain, { ...program, launchers }), HOME: folder };
    });
    afterAll(async () => {
      localPort?.close();
      await sidecar?.stop();
      provider?.close();
      rmSync(folder, { recursive: true, force: true });
    });

    /** Answers an API, a git server, and two indexes of packages; each demands the credential. */
    function answer(seen: SeenRequest, response: ServerResponse): void {
      const path = seen.url.split("?")[0] ?? "";
      const isAllowed = seen.headers.authorization === `Bearer ${providerToken}`;
      const answers: Readonly<Record<string, () => unknown>> = {
        "/simple/latchkey-probe/": () => html(response, `<a href="/files/${wheel}">${wheel}</a>`),
        [`/files/${wheel}`]: () => response.end(readFileSync(at("probe.whl"))),
        "/latchkey-probe": () => json(response, npmDocument()),
        "/npm.tgz": () => response.end(readFileSync(at("package.tgz"))),
        "/latchkey.Probe/Get": () => grpc(response),
        "/page": () => html(response, "<title>found</title><p>the page</p>"),
      };
      const own = path.startsWith("/git/") ? () => answerGit(seen, response) : answers[path];
      if (isAllowed && own !== undefined) own();
      else demanding(seen, response, undefined as never);
    }

    const html = (response: ServerResponse, text: string) =>
      void response.writeHead(200, { "content-type": "text/html" }).end(text);
    const json = (response: ServerResponse, value: unknown) =>
      void response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(value));
    /** A message of no bytes, and its status as a trailer. */
    function grpc(response: ServerResponse): void {
      response.writeHead(200, { "content-type": "application/grpc+proto" });
      response.write(Buffer.alloc(5));
      response.addTrailers({ "grpc-status": "0" });
      response.end();
    }
    const npmDocument = () => ({
      name: "latchkey-probe",
      "dist-tags": { latest: "1.0.0" },
      versions: { "1.0.0": { name: "latchkey-probe", version: "1.0.0", dist: { tarball: `${api}/npm.tgz` } } },
    });

    function answerGit(seen: SeenRequest, response: ServerResponse): void {
      const [path = "", query = ""] = seen.url.slice("/git".length).split("?");
      const ran = spawnSync("git", ["http-backend"], {
        input: seen.bytes,
        env: {
          ...process.env,
          GIT_PROJECT_ROOT: at("repositories"),
          GIT_HTTP_EXPORT_ALL: "1",
          REMOTE_USER: "ada",
          REQUEST_METHOD: seen.method,
          PATH_INFO: path,
          QUERY_STRING: query,
          CONTENT_TYPE: seen.headers["content-type"] ?? "",
          CONTENT_LENGTH: String(seen.bytes.length),
          HTTP_CONTENT_ENCODING: seen.headers["content-encoding"] ?? "",
          GIT_PROTOCOL: String(seen.headers["git-protocol"] ?? ""),
        },
      });
      const end = ran.stdout.indexOf("\r\n\r\n");
      for (const line of ran.stdout.subarray(0, end).toString().split("\r\n")) {
        const [name = "", value = ""] = line.split(": ");
        if (name === "Status") response.statusCode = Number.parseInt(value, 10);
        else response.setHeader(name, value);
      }
      response.end(ran.stdout.subarray(end + 4));
    }

    /** Runs a program to its end; rejects with what it said if it fails. */
    async function run(
      command: string,
      args: readonly string[],
      { cwd = folder, ...more }: Record<string, string> & { readonly cwd?: string } = {},
    ): Promise<string> {
      const child: ChildProcess = spawn(command, [...args], { env: { ...env, ...more }, cwd });
      let out = "";
      let errors = "";
      child.stdout?.on("data", (chunk) => (out += chunk));
      child.stderr?.on("data", (chunk) => (errors += chunk));
      const late = setTimeout(() => child.kill("SIGKILL"), 90_000);
      const [code, signal] = await once(child, "close");
      clearTimeout(late);
      if (code !== 0) throw new Error(`${command} ended with ${code ?? signal}:\n${out}\n${errors}`);
      return out;
    }

    const slow = 120_000;
    const isSeen = (url: string) => provider.seen.some((one) => one.url === url);

    it.skipIf(lacks("curl"))(
      "curl, over HTTP/1.1 and HTTP/2",
      async ({ expect: own }) => {
        for (const version of ["--http1.1", "--http2"]) {
          const said = await run("curl", [
            "-sS",
            version,
            "--max-time",
            "30",
            "-w",
            " %{http_version}",
            "-d",
            "a=b",
            `${api}/curl`,
          ]);
          own(said).toContain('"body":"a=b"');
          own(said).toMatch(version === "--http2" ? / 2$/ : / 1\.1$/);
        }
        const large = at("large");
        writeFileSync(large, "x".repeat(300_000));
        const args = ["-sS", "--http1.1", "-H", "Expect: 100-continue", "--data-binary", `@${large}`, `${api}/large`];
        own((await run("curl", args)).length).toBeGreaterThan(300_000);
      },
      slow,
    );

    it.skipIf(lacks("git"))(
      "git clone and push",
      async ({ expect: own }) => {
        await run("git", ["clone", "-q", `${api}/git/project.git`, at("clone")]);
        own(readFileSync(at("clone/README"), "utf8")).toBe("hello\n");
        writeFileSync(at("clone/more"), "more\n");
        const inClone = (...args: readonly string[]) => run("git", ["-C", at("clone"), ...identity, ...args]);
        await inClone("add", "more");
        await inClone("commit", "-qm", "More");
        await inClone("push", "-q", "origin", "HEAD");
        const log = execFileSync("git", ["-C", at("repositories/project.git"), "log", "--format=%s"], {
          encoding: "utf8",
        });
        own(log).toBe("More\nBegin\n");
      },
      slow,
    );

    it.skipIf(lacks("pip"))(
      "pip",
      async ({ expect: own }) => {
        const args = ["-m", "pip", "download", "--no-deps", "-q"];
        const where = ["--index-url", `${api}/simple/`, "-d", at("downloaded"), "latchkey-probe==1.0"];
        await run("python3", [...args, ...where], { PIP_DISABLE_PIP_VERSION_CHECK: "1" });
        own(isSeen(`/files/${wheel}`)).toBe(true);
      },
      slow,
    );

    it(
      "npm",
      async ({ expect: own }) => {
        const npm = process.env["npm_execpath"];
        const [command, ...first] = npm === undefined ? ["npm"] : [process.execPath, npm];
        const words = [...first, "view", "latchkey-probe", "version", `--registry=${api}/`, "--cache", at("npm-cache")];
        own(await run(command ?? "npm", words)).toContain("1.0.0");
      },
      slow,
    );

    it.skipIf(lacks("python"))(
      "Python's urllib",
      async ({ expect: own }) => {
        const program = `import urllib.request as r; print(r.urlopen("${api}/urllib").read().decode())`;
        own(await run("python3", ["-c", program])).toContain("/urllib");
      },
      slow,
    );

    it.skipIf(lacks("pythonClients"))(
      "Python's requests and httpx",
      async ({ expect: own }) => {
        const requests = `import requests; print(requests.post("${api}/requests", headers={"Authorization": "Bearer dummy"}, json=[1]).text)`;
        own(await run("/usr/bin/python3", ["-c", requests])).toContain("/requests");
        const httpx = `import httpx; print(httpx.get("${api}/httpx").text)`;
        own(await run("/usr/bin/python3", ["-c", httpx])).toContain("/httpx");
      },
      slow,
    );

    it.skipIf(lacks("go"))(
      "Go's net/http",
      async ({ expect: own }) => {
        writeFileSync(at("main.go"), goProgram(`${api}/go`));
        own(await run("go", ["run", at("main.go")], { GOFLAGS: "-mod=mod", GOPROXY: "off" })).toContain("/go");
      },
      slow,
    );

    it.skipIf(lacks("java"))(
      "Java's HttpClient",
      async ({ expect: own }) => {
        writeFileSync(at("Get.java"), javaProgram(`${api}/java`));
        own(await run("java", [at("Get.java")])).toContain("/java");
      },
      slow,
    );

    it(
      "Node's fetch and https, and undici's agents",
      async ({ expect: own }) => {
        const fetching = `console.log(await (await fetch("${api}/fetch")).text())`;
        own(await run(process.execPath, ["--input-type=module", "-e", fetching])).toContain("/fetch");
        const undici = new URL("../../node_modules/undici/index.js", import.meta.url).href;
        const agents = `
      import undici from "${undici}";
      for (const dispatcher of [new undici.EnvHttpProxyAgent(), new undici.ProxyAgent(process.env.HTTPS_PROXY)]) {
        const { body } = await undici.request("${api}/undici", { dispatcher });
        console.log(await body.text());
        await dispatcher.close();
      }`;
        own(
          (await run(process.execPath, ["--input-type=module", "-e", agents])).match(/"url":"\/undici"/g),
        ).toHaveLength(2);
      },
      slow,
    );

    it(
      "agents of Node that a library makes",
      async ({ expect: own }) => {
        const program = `
      import https, { Agent } from "node:https";
      import { get } from "node:https";
      class Own extends Agent {}
      const chosen = new Agent({ proxyEnv: { HTTPS_PROXY: "http://127.0.0.1:9" } });
      for (const agent of [new Agent({ keepAlive: true }), new https.Agent(), new Own(), Agent(), false, chosen]) {
        await new Promise((done) => {
          const end = (text) => { console.log(text); agent.destroy?.(); done(); };
          get("${api}/agents", { agent }, (answer) => end(answer.statusCode)).on("error", ({ code }) => end(code));
        });
      }`;
        const said = await run(process.execPath, ["--input-type=module", "-e", program]);
        own(said.trim().split("\n")).toEqual(["200", "200", "200", "200", "200", "ECONNREFUSED"]);
      },
      slow,
    );

    const root = fileURLToPath(new URL("../..", import.meta.url));
    const withPackages = (program: string) =>
      run(process.execPath, ["--input-type=module", "-e", program], { cwd: root });

    it(
      "@octokit/rest and @googleapis/calendar, without a base URL",
      async ({ expect: own }) => {
        const octokit = `
      import { Octokit } from "@octokit/rest";
      const { data } = await new Octokit({ auth: "dummy" }).request("GET /user");
      console.log(JSON.stringify(data));`;
        own(await withPackages(octokit)).toContain('"host":"api.github.com","url":"/user"');
        const calendar = `
      import { auth, calendar } from "@googleapis/calendar";
      const client = new auth.OAuth2();
      client.setCredentials({ access_token: "dummy" });
      const { data } = await calendar({ version: "v3", auth: client }).events.list({ calendarId: "primary" });
      console.log(JSON.stringify(data));`;
        own(await withPackages(calendar)).toContain('"url":"/calendar/v3/calendars/primary/events"');
      },
      slow,
    );

    it(
      "stripe, without a base URL",
      async ({ expect: own }) => {
        const program = `
      import Stripe from "stripe";
      const client = new Stripe("sk_test_dummy");
      console.log(JSON.stringify(await client.rawRequest("GET", "/v1/balance")));`;
        own(await withPackages(program)).toContain('"url":"/v1/balance"');
      },
      slow,
    );

    it(
      "grpc-js",
      async ({ expect: own }) => {
        const module = new URL("../../node_modules/@grpc/grpc-js/build/src/index.js", import.meta.url).href;
        const program = `
      import grpc from "${module}";
      const client = new grpc.Client("${apiHost}:443", grpc.credentials.createSsl());
      const same = (bytes) => bytes;
      client.makeUnaryRequest("/latchkey.Probe/Get", same, same, Buffer.alloc(0), (error, answer) => {
        console.log(error === null ? "answered " + answer.length : String(error));
        client.close();
      });`;
        own(await run(process.execPath, ["--input-type=module", "-e", program])).toBe("answered 0\n");
      },
      slow,
    );

    it.skipIf(lacks("gh"))(
      "gh",
      async ({ expect: own }) => {
        const named = { GH_HOST: apiHost, GH_ENTERPRISE_TOKEN: "dummy", GH_NO_UPDATE_NOTIFIER: "1" };
        own(await run("gh", ["api", "user"], named)).toContain('"url":"/api/v3/user"');
      },
      slow,
    );

    it.skipIf(lacks("chromium"))(
      "Chromium",
      async ({ expect: own }) => {
        // Root needs the first flag, a machine without a screen the others.
        const words = ["--no-sandbox", "--headless", "--disable-gpu", "--dump-dom"];
        own(await run("chromium", [...words, `${api}/page`])).toContain("<p>the page</p>");
      },
      slow,
    );
  },
);

const wheel = "latchkey_probe-1.0-py3-none-any.whl";
const identity = ["-c", "user.name=Ada", "-c", "user.email=ada@example.com"];

function makeRepository(folder: string): void {
  const git = (...args: readonly string[]) => execFileSync("git", [...identity, ...args], { stdio: "ignore" });
  const work = join(folder, "work");
  mkdirSync(work, { recursive: true });
  git("init", "-q", "-b", "main", work);
  writeFileSync(join(work, "README"), "hello\n");
  git("-C", work, "add", "README");
  git("-C", work, "commit", "-qm", "Begin");
  const bare = join(folder, "project.git");
  git("clone", "-q", "--bare", work, bare);
  git("-C", bare, "config", "http.receivepack", "true");
}

/** A wheel, which is a ZIP archive with these files. */
function makeWheel(path: string): void {
  const program = `
import sys, zipfile
with zipfile.ZipFile(sys.argv[1], "w") as wheel:
    wheel.writestr("latchkey_probe-1.0.dist-info/METADATA", "Metadata-Version: 2.1\\nName: latchkey-probe\\nVersion: 1.0\\n")
    wheel.writestr("latchkey_probe-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
    wheel.writestr("latchkey_probe-1.0.dist-info/RECORD", "")
`;
  execFileSync("python3", ["-c", program, path]);
}

function nodePackage(folder: string): Buffer {
  mkdirSync(join(folder, "package"), { recursive: true });
  writeFileSync(join(folder, "package/package.json"), '{"name":"latchkey-probe","version":"1.0.0"}');
  return execFileSync("tar", ["-czf", "-", "-C", folder, "package"]);
}

const goProgram = (url: string): string => `package main

import (
	"fmt"
	"io"
	"net/http"
)

func main() {
	answer, err := http.Get("${url}")
	if err != nil {
		panic(err)
	}
	body, _ := io.ReadAll(answer.Body)
	fmt.Println(answer.Proto, string(body))
}
`;

const javaProgram = (url: string): string => `import java.net.URI;
import java.net.http.*;

public class Get {
  public static void main(String[] words) throws Exception {
    HttpRequest request = HttpRequest.newBuilder(URI.create("${url}")).build();
    HttpResponse<String> answer = HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString());
    System.out.println(answer.version() + " " + answer.body());
  }
}
`;
