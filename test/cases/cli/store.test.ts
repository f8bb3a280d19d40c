import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync } from "node:fs";
import { mkdir, readdir, readFile, rm, stat, symlink, truncate, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PassThrough } from "node:stream";
import { afterAll, beforeAll, expect, it } from "vitest";
import { runCli } from "../../../src/cli/program.ts";
import { StoreService } from "../../../src/gen/latchkey/v1/store_pb.ts";
import { programFile } from "../../support/runner/program.ts";
import { sidecarOfFile } from "../../support/sidecar/door.ts";
import { adminKey, keyedConnection, startTestSidecar } from "../../support/sidecar/harness.ts";
import { fakeControl } from "./fake-control.ts";
import { memoryTerminal } from "./memory-terminal.ts";

interface Setting {
  readonly env?: Readonly<Record<string, string>>;
  readonly stdin?: Buffer | string;
  readonly isTerminal?: boolean;
  readonly canAsk?: boolean;
  readonly signal?: AbortSignal;
}

async function latchkey(argv: readonly string[], setting: Setting = {}) {
  const terminal = memoryTerminal(setting);
  const code = await runCli(argv, terminal);
  return { code, out: terminal.out(), err: terminal.err() };
}

/** A folder that must stay empty. */
const untouched = mkdtempSync(join(tmpdir(), "latchkey-test-"));
const nowhere = `level:${join(untouched, "x")}`;
afterAll(async () => {
  const made = await readdir(untouched);
  await rm(untouched, { recursive: true });
  expect(made).toEqual([]);
});

const shared = sidecarOfFile();
const control = () => ["--address", shared().control, "--key", adminKey];
let place = "";
let backup = "";
beforeAll(async () => {
  for (let i = 0; i < 5; i += 1) await shared().rest("POST", "/connections", { body: keyedConnection(`c${i}`) });
  place = join(shared().folder, "files");
  await mkdir(place);
  backup = join(place, "made");
  expect((await latchkey(["store", "backup", backup, ...control()])).code).toBe(0);
});
afterAll(() => rm(place, { recursive: true, force: true }));

it("shows how the store does", async () => {
  const { code, out } = await latchkey(["store", "status", ...control()]);
  expect(code).toBe(0);
  expect(out).toMatch(/^backend: level\nstore_id: [0-9a-f-]{36}\nrevision: \d+\nwritable: true\n/);
});

it("writes a backup that only its owner can read, prints a summary, and leaves no other files", async () => {
  const file = join(place, "own");
  const { code, out, err } = await latchkey(["store", "backup", file, "--quiet", ...control()]);
  expect([code, err]).toEqual([0, ""]);
  expect(out).toMatch(/^store_id: .*\nrevision: \d+\ncount: \d+\nsha256: .{44}\ncreated_at: /);
  expect((await stat(file)).mode & 0o777).toBe(0o600);
  expect((await readdir(place)).filter((name) => name.startsWith("own"))).toEqual(["own"]);
  const verified = await latchkey(["store", "verify", file, "--quiet"]);
  expect(verified).toEqual({ code: 0, out, err: "" });
});

it("answers in JSON on request, with and without a latchkey", async () => {
  const file = join(place, "json");
  const made = await latchkey(["store", "backup", file, "--json", ...control()]);
  const verified = await latchkey(["store", "verify", file, "--json"]);
  expect(verified.out).toBe(made.out);
  expect(JSON.parse(made.out)).toMatchObject({ format: 2, key_ids: ["test"] });
  const keys = await latchkey(["store", "keys", "--json", ...control()]);
  expect(JSON.parse(keys.out)).toEqual({ id: "test", configured: true, data_keys: 2, needed: true });
});

it("pipes a backup through, whole", async () => {
  const [address, key] = [shared().control, adminKey];
  const run = '"$NODE" "$MAIN" store backup - --address "$AT" --key "$KEY" | "$NODE" "$MAIN" store verify - --json';
  const child = spawn("sh", ["-c", run], { env: { NODE: process.execPath, MAIN: programFile, AT: address, KEY: key } });
  let [out, err] = ["", ""];
  child.stdout.on("data", (text) => {
    out += text;
  });
  child.stderr.on("data", (text) => {
    err += text;
  });
  expect((await once(child, "close"))[0]).toBe(0);
  const { sha256, revision } = JSON.parse(out) as { sha256: string; revision: string };
  // Stdout has the backup alone; the summary goes to stderr.
  expect(err).toContain(`revision: ${revision}`);
  expect(err).toContain(sha256);
});

it("replaces an older backup only when the new one is whole", async () => {
  const file = join(place, "nightly");
  await writeFile(file, "the one of yesterday");
  const { address } = await fakeControl((router) =>
    router.service(StoreService, {
      async *backup() {
        yield { piece: { case: "chunk", value: (await readFile(backup)).subarray(0, 300) } };
      },
    }),
  );
  const cut = await latchkey(["store", "backup", file, "--address", address]);
  expect(cut.code).toBe(1);
  expect(cut.err).toMatch(/the backup is damaged: it ends too early/);
  expect(await readFile(file, "utf8")).toBe("the one of yesterday");
  expect((await readdir(place)).filter((name) => name.startsWith("nightly"))).toEqual(["nightly"]);

  expect((await latchkey(["store", "backup", file, ...control()])).code).toBe(0);
  expect((await latchkey(["store", "verify", file])).code).toBe(0);
});

it("leaves nothing behind when it is interrupted", async () => {
  const enough = new AbortController();
  const { address } = await fakeControl((router) =>
    router.service(StoreService, {
      async *backup(_request, { signal }) {
        yield { piece: { case: "chunk", value: (await readFile(backup)).subarray(0, 300) } };
        enough.abort();
        await once(signal, "abort");
      },
    }),
  );
  const file = join(place, "interrupted");
  const { code, err } = await latchkey(["store", "backup", file, "--address", address], { signal: enough.signal });
  expect([code, err]).toEqual([1, "latchkey: interrupted\n"]);
  expect((await readdir(place)).filter((name) => name.startsWith("interrupted"))).toEqual([]);
});

it("leaves nothing behind when it is interrupted before its start", async () => {
  const file = join(place, "interrupted");
  const signal = AbortSignal.abort();
  const { code, err } = await latchkey(["store", "backup", file, ...control()], { signal });
  expect([code, err]).toEqual([1, "latchkey: interrupted\n"]);
  expect((await readdir(place)).filter((name) => name.startsWith("interrupted"))).toEqual([]);
});

it("does not wait for more piped input after an interrupt", async () => {
  const enough = new AbortController();
  const silent = new PassThrough();
  const terminal = { ...memoryTerminal({ signal: enough.signal }), stdin: silent };
  const verifying = runCli(["store", "verify", "-"], terminal);
  silent.write((await readFile(backup)).subarray(0, 300));
  setTimeout(() => enough.abort(), 50);
  expect([await verifying, terminal.err()]).toEqual([1, "latchkey: interrupted\n"]);
});

it("asks on a terminal before it replaces a backup", async () => {
  const file = join(place, "replaced");
  await writeFile(file, "an older backup");
  const asked = { stdin: "n\n", isTerminal: true, canAsk: true };
  const { code, err } = await latchkey(["store", "backup", file, ...control()], asked);
  expect([code, err]).toEqual([1, expect.stringContaining(`${file} exists. Replace it? [y/N]`)]);
  expect(await readFile(file, "utf8")).toBe("an older backup");
  expect((await latchkey(["store", "backup", file, "--yes", ...control()], asked)).code).toBe(0);
  expect((await stat(file)).size).toBeGreaterThan(100);
});

it("does not write through a link at the target's path", async () => {
  const file = join(place, "linked");
  const elsewhere = join(place, "elsewhere");
  await writeFile(elsewhere, "mine");
  await symlink(elsewhere, `${file}.partial`);
  expect((await latchkey(["store", "backup", file, ...control()])).code).toBe(0);
  expect(await readFile(elsewhere, "utf8")).toBe("mine");
  const { code, err } = await latchkey(["store", "backup", join(place, "no/such/folder"), ...control()]);
  expect([code, err]).toEqual([2, expect.stringMatching(/cannot write .*folder\.partial: ENOENT/)]);
});

it("does not take another process's backup of the same name for its own", async () => {
  const file = join(place, "contended");
  const { address } = await fakeControl((router) =>
    router.service(StoreService, {
      async *backup() {
        const bytes = await readFile(backup);
        yield { piece: { case: "chunk", value: bytes.subarray(0, 300) } };
        await expect.poll(() => stat(`${file}.partial`)).toBeDefined();
        await rm(`${file}.partial`);
        await writeFile(`${file}.partial`, "half of theirs");
        yield { piece: { case: "chunk", value: bytes.subarray(300) } };
      },
    }),
  );
  const { code, err } = await latchkey(["store", "backup", file, "--address", address]);
  expect([code, err]).toEqual([1, expect.stringContaining("another process is writing")]);
  await expect(stat(file)).rejects.toThrow(/ENOENT/);
  expect(await readFile(`${file}.partial`, "utf8")).toBe("half of theirs");
});

it.each([
  ["cut off", (file: string) => truncate(file, 500), /ends too early, after \d+ entries/],
  ["changed", async (file: string) => writeFile(file, flipped(await readFile(file))), /the backup is damaged: /],
  ["doubled", async (file: string) => writeFile(file, await readFile(file), { flag: "a" }), /data follows its end/],
  ["no backup", (file: string) => writeFile(file, "a picture of a cat, in PNG"), /not a Latchkey backup/],
])("refuses a backup that is %s, and restores nothing of it", async (what, damage, why) => {
  const file = join(place, what.replace(" ", "-"));
  await writeFile(file, await readFile(backup));
  await damage(file);
  const verified = await latchkey(["store", "verify", file]);
  expect([verified.code, verified.out]).toEqual([1, ""]);
  expect(verified.err).toMatch(why);
  const folder = join(place, `${what}-store`);
  const restored = await latchkey(["store", "restore", file, "--to", `level:${folder}`]);
  expect(restored.code).toBe(1);
  expect(restored.err).toMatch(why);
  await expect(stat(folder)).rejects.toThrow(/ENOENT/);
});

function flipped(bytes: Buffer): Buffer {
  const middle = Math.floor(bytes.length / 2);
  bytes[middle] = (bytes[middle] ?? 0) ^ 1;
  return bytes;
}

it.each([
  [["verify", "none"], /cannot read none: no such file/],
  [["restore", "none", "--to", nowhere], /cannot read none/],
  [["restore", "-", "--to", nowhere], /must be a file: it is read twice/],
  [["restore", "some"], /--to is required: level:<folder> or .*LATCHKEY_STORE/],
  [["move", "--to", nowhere], /--from is required: .*LATCHKEY_STORE/],
  [["move", "--from", nowhere], /--to is required: (?!.*LATCHKEY_STORE)/],
  [["verify", "some", "--key", "k"], /--key is not for `verify`/],
  [["move", "--json"], /--json is not for `move`/],
  [["restore", "some", "--to", "mysql://root:hunter2@db/x"], /--to must be level:<folder>/],
])("explains what is wrong with the input of `store %s`", async (words, why) => {
  const { code, out, err } = await latchkey(["store", ...words]);
  expect([code, out]).toEqual([2, ""]);
  expect(err).toMatch(why);
  expect(err).not.toContain("hunter2");
});

it("shows no password of a location, wherever it comes from", async () => {
  const secret = "postgres://ada:hunter2@127.0.0.1:1/latchkey?password=hunter3&sslmode=disable";
  const file = join(place, "location");
  await writeFile(file, `${secret}\n`);
  const folder = join(place, "moved-from");
  expect((await latchkey(["store", "restore", backup, "--to", `level:${folder}`, "--quiet"])).code).toBe(0);
  const runs = [
    await latchkey(["store", "restore", backup, "--to", secret]),
    await latchkey(["store", "restore", backup, "--to-file", file]),
    await latchkey(["store", "restore", backup], { env: { LATCHKEY_STORE_FILE: file } }),
    await latchkey(["store", "move", "--to", `level:${join(place, "new")}`], { env: { LATCHKEY_STORE: secret } }),
    await latchkey(["store", "move", "--from", `level:${folder}`, "--to-file", file]),
  ];
  expect(runs.map(({ code }) => code)).toEqual([1, 1, 1, 1, 1]);
  for (const { out, err } of runs) {
    expect(err).toMatch(/PostgreSQL at 127\.0\.0\.1:1/);
    expect(out + err).not.toMatch(/hunter/);
  }
  expect(runs.at(-1)?.err).toContain("the old store is unchanged");
});

it("restores only into an empty or missing store", async () => {
  const folder = join(place, "fresh");
  const restored = await latchkey(["store", "restore", backup, "--to", `level:${folder}`]);
  expect(restored.code).toBe(0);
  expect(restored.out).toMatch(new RegExp(`^restored \\d+ entries at revision \\d+ to level:${folder}; .* "test"\\n$`));
  expect(restored.err).toMatch(/^reading all of .*\ncopying to .*\nreading .* again\n$/);
  const before = await readdir(join(folder, "store"));

  const again = await latchkey(["store", "restore", backup], { env: { LATCHKEY_STORE: `level:${folder}` } });
  expect([again.code, again.out]).toEqual([2, ""]);
  expect(again.err).toContain(`level:${folder} is not empty`);
  expect(await readdir(join(folder, "store"))).toEqual(before);

  const foreign = join(place, "foreign");
  await mkdir(join(foreign, "store"), { recursive: true, mode: 0o700 });
  await writeFile(join(foreign, "store", "letters.txt"), "dear ada");
  expect((await latchkey(["store", "restore", backup, "--to", `level:${foreign}`])).code).toBe(2);
  expect(await readdir(join(foreign, "store"))).toEqual(["letters.txt"]);
});

it("reports an interrupted restore when it is served", async () => {
  const enough = new AbortController();
  const folder = join(place, "cut-short");
  const terminal = memoryTerminal({ signal: enough.signal });
  terminal.stderr.write = (text: string | Uint8Array) => {
    if (String(text).startsWith("copying to")) enough.abort();
    return true;
  };
  expect(await runCli(["store", "restore", backup, "--to", `level:${folder}`], terminal)).toBe(1);
  await expect(startTestSidecar({ folder })).rejects.toThrow(/a restore into this folder was not finished/);
});

it("refuses to move a store in use, and names its user", async () => {
  const { folder, rest } = shared();
  const to = join(place, "stolen");
  const { code, err } = await latchkey(["store", "move", "--from", `level:${folder}`, "--to", `level:${to}`]);
  expect(code).toBe(1);
  expect(err).toMatch(/in use|open in this process/);
  await expect(stat(to)).rejects.toThrow(/ENOENT/);
  expect((await rest("GET", "/connections/c1?provider_config_key=keyed")).status).toBe(200);
});

it("moves nothing without a store", async () => {
  const from = join(place, "nothing-here");
  const { code, err } = await latchkey(["store", "move", "--from", `level:${from}`, "--to", nowhere]);
  expect([code, err]).toEqual([1, expect.stringContaining("there is no store in")]);
  await expect(stat(from)).rejects.toThrow(/ENOENT/);
});

it("reads everything, and reports damage by its exit code", async () => {
  const { code, out } = await latchkey(["store", "scrub", ...control()]);
  expect([code, out]).toEqual([0, expect.stringMatching(/^read \d+ values; no damage found\n$/)]);
  const { address } = await fakeControl((router) =>
    router.service(StoreService, {
      async *scrub() {
        yield { checked: 5n };
        yield { checked: 9n, damaged: 2n, examples: ["the file 7.ldb", 'the value of "a"'], done: true };
      },
    }),
  );
  const bad = await latchkey(["store", "scrub", "--address", address]);
  expect([bad.code, bad.out]).toEqual([1, 'read 9 values; damaged: 2, for example the file 7.ldb, the value of "a"\n']);
  const cut = await fakeControl((router) => router.service(StoreService, { async *scrub() {} }));
  expect((await latchkey(["store", "scrub", "--address", cut.address])).code).toBe(1);
});

it("re-encrypts everything, and reports its progress when it breaks off", async () => {
  const { code, out } = await latchkey(["store", "reseal", ...control()]);
  expect([code, out]).toEqual([0, expect.stringMatching(/^resealed 5 values; /)]);
  const { address } = await fakeControl((router) =>
    router.service(StoreService, {
      async *reseal() {
        yield { done: 500n, total: 2_000n };
        throw new Error("the power went");
      },
    }),
  );
  const broken = await latchkey(["store", "reseal", "--address", address]);
  expect(broken.code).toBe(1);
  expect(broken.err).toContain("resealed 500 of 2000; run it again to continue");
});

it("lists the removable seal keys, and the reason for each other one", async () => {
  const { address } = await fakeControl((router) =>
    router.service(StoreService, {
      listSealKeys: ({ countValues }) => ({
        keys: [
          { id: "new", configured: true, dataKeys: 1, needed: true, ...(countValues && { sealedValues: 12n }) },
          { id: "old", configured: true, dataKeys: 2, needed: true, ...(countValues && { sealedValues: 3_000n }) },
          { id: "older", configured: true, dataKeys: 0, needed: false, ...(countValues && { sealedValues: 0n }) },
        ],
      }),
    }),
  );
  const { out } = await latchkey(["store", "keys", "--address", address]);
  expect(out).toBe(
    [
      "KEY    CONFIGURED  DATA KEYS  REMOVABLE",
      "new    yes         1          no: encrypts new values",
      "old    yes         2          no: encrypts 2 data keys; run `latchkey store reseal`",
      "older  yes         0          yes",
      "",
    ].join("\n"),
  );
  const counted = await latchkey(["store", "keys", "--count", "--address", address]);
  expect(counted.out).toContain("old    yes         2          3,000   no: encrypts 2 data keys");
});
