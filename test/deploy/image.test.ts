import { execFileSync } from "node:child_process";
import { existsSync, lstatSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { root as checkout } from "../../bin/steps.ts";
import { buildImage } from "../../deploy/image/build.ts";
import { secretKey, temporaryFolder, testVariables } from "../support/sidecar/harness.ts";
import { lacks } from "../support/sidecar/needs.ts";
import { type OciImage, readImage, run } from "./container.ts";

interface Bill {
  readonly bomFormat: string;
  readonly specVersion: string;
  readonly components: readonly {
    readonly name: string;
    readonly version: string;
    readonly purl: string;
    readonly hashes?: readonly { readonly content: string }[];
  }[];
}

describe.skipIf(lacks("buildah") || lacks("namespaces"))("the image", () => {
  let folder = "";
  let image: OciImage;
  let files: readonly string[] = [];
  const inImage = (path: string) => join(folder, "root", path);

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "latchkey-image-"));
    image = readImage(await buildImage({ name: "latchkey:test", folder }));
    image.unpack(join(folder, "root"));
    files = readdirSync(join(folder, "root"), { recursive: true, encoding: "utf8" });
  });
  afterAll(() => rm(folder, { recursive: true, force: true }));

  it("has at most 70 MB to download, and describes how to run it", () => {
    expect(image.bytes).toBeLessThan(70_000_000);
    expect(image.config).toMatchObject({
      User: "65532:65532",
      Entrypoint: ["/usr/bin/node", "/opt/latchkey/latchkey.js"],
      Cmd: ["serve"],
      WorkingDir: "/var/lib/latchkey",
    });
  });

  it("has one program, no shell, and no setuid files", () => {
    const programs = files.filter((path) => {
      const { mode } = lstatSync(inImage(path));
      return (mode & 0o170000) === 0o100000 && (mode & 0o111) !== 0 && !/\.so(?:\.|$)|\.js$/.test(path);
    });
    // The program that bundles scripts.
    const bundler = `opt/latchkey/node_modules/@esbuild/linux-${process.arch}/bin/esbuild`;
    expect(programs.toSorted()).toEqual([bundler, "usr/bin/node"]);
    expect(files.filter((path) => (lstatSync(inImage(path)).mode & 0o6000) !== 0)).toEqual([]);
    const writable = files.filter((path) => (lstatSync(inImage(path)).mode & 0o120022) === 0o000022);
    expect(writable).toEqual([]);
    const owned = files.filter((path) => lstatSync(inImage(path)).uid !== 0);
    expect(owned).toEqual(["var/lib/latchkey"]);
  });

  it("has authorities, time zones and an account, and only this system's binaries", () => {
    const authorities = readFileSync(inImage("etc/ssl/certs/ca-certificates.crt"), "utf8");
    expect(authorities.split("BEGIN CERTIFICATE").length).toBeGreaterThan(100);
    expect(existsSync(inImage("usr/share/zoneinfo/Europe/London"))).toBe(true);
    expect(readFileSync(inImage("etc/passwd"), "utf8")).toMatch(/^nonroot:x:65532:65532:/m);
    const prebuilt = files.filter((path) => path.endsWith(".node"));
    expect(prebuilt.length).toBeGreaterThan(0);
    expect(prebuilt.filter((path) => !path.includes(`/linux-${process.arch}/`))).toEqual([]);
  });

  it("lists its contents: every package that runs, with its download hash", () => {
    const bill = JSON.parse(readFileSync(inImage("usr/share/sbom/latchkey.cdx.json"), "utf8")) as Bill;
    expect([bill.bomFormat, bill.specVersion]).toEqual(["CycloneDX", "1.6"]);
    const { dependencies } = JSON.parse(readFileSync(join(checkout, "package.json"), "utf8")) as {
      dependencies: Record<string, string>;
    };
    const listed = new Map(bill.components.map((one) => [one.name, one]));
    for (const [name, version] of Object.entries(dependencies)) expect(listed.get(name)?.version, name).toBe(version);
    for (const name of ["libc6", "libstdc++6", "ca-certificates", `node-linux-${process.arch}`, "classic-level"]) {
      expect([...listed.keys()]).toContain(name);
    }
    for (const { name, hashes } of bill.components) expect(hashes?.[0]?.content, name).toMatch(/^[0-9a-f]{64,128}$/);
    // The packages beside the bundle are in the image, and no development packages.
    const beside = files.filter((path) => /node_modules\/(?:@[^/]+\/)?[^/]+\/package\.json$/.test(path));
    for (const path of beside) {
      const { name } = JSON.parse(readFileSync(inImage(path), "utf8")) as { name: string };
      expect([...listed.keys()]).toContain(name);
    }
    expect([...listed.keys()].filter((name) => /^(?:vitest|typescript|@biomejs)/.test(name))).toEqual([]);
    const versions = execFileSync(process.execPath, ["--version"], { encoding: "utf8" }).trim().slice(1);
    expect(listed.get(`node-linux-${process.arch}`)?.version).toBe(versions);
  });

  it("runs as process 1 on a read-only root without privileges, writes only its volume, and stops on a signal", async () => {
    const root = join(folder, "root");
    const volume = join(await temporaryFolder(), "volume");
    const { LATCHKEY_STORE: _, ...variables } = testVariables("");
    const began = performance.now();
    const first = run({ image, root, volume, env: variables });
    await first.says(/"phase":"ready"/);
    const readyMs = performance.now() - began;
    const status = first.status();
    process.stdout.write(
      `image: ${(image.bytes / 1e6).toFixed(1)} MB; ready ${readyMs.toFixed(0)} ms after it was started; ${status["VmRSS"]}\n`,
    );
    expect(status["NSpid"]?.split("\t")[1]).toBe("1");
    expect(status["Uid"]).toBe("65532\t65532\t65532\t65532");
    expect(status["CapEff"]).toBe("0000000000000000");
    expect(status["NoNewPrivs"]).toBe("1");
    expect(first.children()).toEqual([]);
    const [, data = ""] = /"door":"data","address":"([^"]+)"/.exec(first.said()) ?? [];
    const headers = { authorization: `Bearer ${secretKey}`, "content-type": "application/json" };
    const made = await fetch(`${data}/integrations`, {
      method: "POST",
      headers,
      body: JSON.stringify({ unique_key: "keyed", provider: "example-api-key" }),
    });
    expect(made.status).toBe(200);
    first.signal("SIGTERM");
    expect(await first.exited).toBe(0);
    expect(first.said()).toMatch(/"msg":"stopped"/);

    const second = run({ image, root, volume, env: variables });
    await second.says(/"phase":"ready"/);
    const [, again = ""] = /"door":"data","address":"([^"]+)"/.exec(second.said()) ?? [];
    expect((await fetch(`${again}/integrations/keyed`, { headers })).status).toBe(200);
    second.signal("SIGINT");
    expect(await second.exited).toBe(0);
  });

  it("runs scripts, from a folder that it can only read", async () => {
    const volume = join(await temporaryFolder(), "volume");
    const events = join(volume, "scripts/keyed/events");
    mkdirSync(events, { recursive: true });
    writeFileSync(
      join(events, "hello.ts"),
      `import { createOnEvent } from "latchkey/scripts";
       export default createOnEvent({ event: "post-connection-creation", description: "A hook.", exec: async () => {} });`,
    );
    const { LATCHKEY_STORE: _, ...variables } = testVariables("");
    const env = { ...variables, LATCHKEY_SCRIPTS: "/var/lib/latchkey/scripts" };
    const running = run({ image, root: join(folder, "root"), volume, env });
    await running.says(/"scripts":1,"broken":0/);
    await running.says(/"phase":"ready"/);
    running.signal("SIGTERM");
    expect(await running.exited).toBe(0);
  });

  it("includes the commands that work on a store without a running process", async () => {
    const volume = join(await temporaryFolder(), "volume");
    const told = run({ image, root: join(folder, "root"), volume, env: {}, words: ["store", "--help"] });
    expect(await told.exited).toBe(0);
    expect(told.said()).toMatch(/backup[\s\S]*restore/);
  });
});
