import { mkdtemp, readFile, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Code, ConnectError, type ConnectRouter } from "@connectrpc/connect";
import { expect, it, vi } from "vitest";
import { runCli } from "../../../src/cli/program.ts";
import { type ConnectionImport, ConnectionService } from "../../../src/gen/latchkey/v1/connection_pb.ts";
import { fakeControl } from "./fake-control.ts";
import { memoryTerminal } from "./memory-terminal.ts";

const line = (id: string, rest: object = {}) =>
  JSON.stringify({
    provider_config_key: "calendar",
    connection_id: id,
    credentials: { type: "API_KEY", apiKey: `key-of-${id}` },
    ...rest,
  });
const lines = (count: number) => Array.from({ length: count }, (_, at) => `${line(`c${at}`)}\n`).join("");

const folder = await mkdtemp(join(tmpdir(), "latchkey-import-"));
async function fileOf(text: string | Buffer): Promise<string> {
  const path = join(folder, `${Math.random()}.ndjson`);
  await writeFile(path, text);
  return path;
}

/** A control plane that imports all ids but those that begin with `bad`, and stores them. */
function importer() {
  const held = new Map<string, ConnectionImport>();
  const routes = (router: ConnectRouter) =>
    router.service(ConnectionService, {
      async *streamImportConnections(requests) {
        let index = 0n;
        for await (const { connection } of requests) {
          if (connection === undefined) throw new ConnectError("no connection", Code.InvalidArgument);
          const { environment, integration, id } = connection;
          const ref = { environment, integration, id };
          const created = !held.has(id);
          if (id.startsWith("bad")) {
            yield {
              index,
              result: { ref, problem: { code: "unknown_provider_config", message: `no integration for ${id}` } },
            };
          } else {
            held.set(id, connection);
            yield { index, result: { ref, created } };
          }
          index += 1n;
        }
      },
    });
  return { held, routes };
}

async function importing(file: string, address: string, more: readonly string[] = [], setting = {}) {
  const terminal = memoryTerminal(setting);
  const argv = ["connections", "import", file, "--address", address, "--key", "lk_test", ...more];
  return { code: await runCli(argv, terminal), out: terminal.out(), err: terminal.err() };
}

it("imports a file and reports each outcome", async () => {
  const { held, routes } = importer();
  const { address } = await fakeControl(routes);
  const { code, out, err } = await importing(await fileOf(lines(5_000)), address, ["-e", "prod"]);
  expect(code).toBe(0);
  // A slow machine is shown the progress.
  expect(err).toMatch(/^(?:\d+ % {2}.* left\n)*$/);
  expect(out).toMatch(/^imported 5,000 connections \(5,000 new\) in [\d.]+ s\n$/);
  expect(held.get("c4999")).toMatchObject({
    environment: "prod",
    credentials: { kind: { value: { apiKey: "key-of-c4999" } } },
  });
});

it("I01 reports failures by line, imports the rest, and exits with 3", async () => {
  const { held, routes } = importer();
  const { address } = await fakeControl(routes);
  const text = [line("a"), "{,}", line("bad1"), line("b", { tags: { x: 1 } }), line("c")].join("\n");
  const { code, out, err } = await importing(await fileOf(text), address);
  expect(code).toBe(3);
  expect([...held.keys()]).toEqual(["a", "c"]);
  expect(out).toMatch(/^imported 2 of 5 connections \(2 new, 3 failed\) in/);
  expect(err).toBe(
    [
      "line 2: the line is not JSON, from its character 2 (invalid_json)",
      "line 3: no integration for bad1 (unknown_provider_config)",
      "line 4: tags.x must be text (invalid_body)",
      "",
    ].join("\n"),
  );
});

it("I02 distinguishes an override from a new connection when a file is imported twice", async () => {
  const { routes } = importer();
  const { address } = await fakeControl(routes);
  const file = await fileOf(`${lines(3)}${line("c0")}\n`);
  expect((await importing(file, address)).out).toMatch(/\(3 new, 1 replaced\)/);
  expect((await importing(file, address)).out).toMatch(/\(0 new, 4 replaced\)/);
});

it("I03 imports every good line of a bad file, and no part of a bad one", async () => {
  const { held, routes } = importer();
  const { address } = await fakeControl(routes);
  const bytes = Buffer.concat([
    Buffer.from(`\ufeff${line("first")}\r\n`),
    Buffer.from(`${line("n\0ul")}\n`),
    Buffer.from('{"connection_id":"a\0b"}\n'),
    Buffer.from(`{"a":"${"x".repeat(5 * 1024 * 1024)}"}\n`),
    Buffer.concat([Buffer.from('{"connection_id":"'), Buffer.from([0xff]), Buffer.from('"}\n')]),
    Buffer.from(`${line("comma")},\n`),
    Buffer.from(`${line("last")}\n`),
    Buffer.from(line("cut").slice(0, -5)),
  ]);
  const { code, err } = await importing(await fileOf(bytes), address);
  expect(code).toBe(3);
  expect([...held.keys()]).toEqual(["first", "n\0ul", "last"]);
  expect(err.match(/^line \d+/gm)).toEqual(["line 3", "line 4", "line 5", "line 6", "line 8"]);
});

it("writes every failure to a file, and only the first twenty to the screen", async () => {
  const { routes } = importer();
  const { address } = await fakeControl(routes);
  const errors = join(folder, "errors.ndjson");
  const text = Array.from({ length: 50 }, (_, at) => line(`bad${at}`)).join("\n");
  const { code, err } = await importing(await fileOf(`${text}\n{"credentials":7}`), address, ["--errors", errors]);
  expect(code).toBe(3);
  expect(err.trimEnd().split("\n")).toHaveLength(21);
  const written = (await readFile(errors, "utf8"))
    .trimEnd()
    .split("\n")
    .map((one) => JSON.parse(one));
  expect(written).toHaveLength(51);
  expect(written[0]).toEqual({
    line: 1,
    code: "unknown_provider_config",
    message: "no integration for bad0",
    violations: [],
  });
  expect(written[50]).toMatchObject({
    line: 51,
    code: "invalid_body",
    violations: [
      { path: "provider_config_key", message: "is required" },
      { path: "credentials", message: "must be a JSON object" },
    ],
  });
});

it("I07 shows no credential, whatever is wrong with its line", async () => {
  const { routes } = importer();
  const { address } = await fakeControl(routes);
  const errors = join(folder, "canary.ndjson");
  const canary = "s3cr3t-canary";
  const bad = [
    `{"credentials":{"apiKey":"${canary}"},`,
    line("bad", { credentials: { type: "API_KEY", apiKey: canary } }),
  ];
  const { out, err } = await importing(await fileOf(bad.join("\n")), address, ["--errors", errors]);
  expect(out + err + (await readFile(errors, "utf8"))).not.toContain(canary);
});

it("names the fields that were ignored", async () => {
  const { routes } = importer();
  const { address } = await fakeControl(routes);
  const { code, err } = await importing(
    await fileOf(`${line("a", { "x\x1b": 1 })}\n${line("b", { from: 1, "x\x1b": 2 })}`),
    address,
  );
  expect(code).toBe(0);
  expect(err).toBe("ignored unknown fields: x\\u001b (2 lines), from (1 line)\n");
});

it("reads from a pipe, and answers in JSON on request", async () => {
  const { routes } = importer();
  const { address } = await fakeControl(routes);
  const { out } = await importing("-", address, ["--json"], { stdin: `${lines(3)}${line("bad")}` });
  expect(JSON.parse(out)).toMatchObject({
    connections: 4,
    created: 3,
    replaced: 0,
    failed: 1,
    last_line: 4,
    ignored_fields: {},
  });
});

it("starts at a given line, and counts the lines before it", async () => {
  const { held, routes } = importer();
  const { address } = await fakeControl(routes);
  await importing(await fileOf(lines(10)), address, ["--from-line", "9"]);
  expect([...held.keys()]).toEqual(["c8", "c9"]);
});

it("keeps a bounded number of lines in flight", async () => {
  let received = 0;
  let release: () => void = () => {};
  const released = new Promise<void>((resolve) => (release = resolve));
  const { address } = await fakeControl((router) =>
    router.service(ConnectionService, {
      async *streamImportConnections(requests) {
        const queue = requests[Symbol.asyncIterator]();
        const readAhead = async (count: number) => {
          for (; received < count; received += 1) if ((await queue.next()).done) return;
        };
        // Reads everything, and answers only after the test releases it.
        const reading = readAhead(Number.POSITIVE_INFINITY);
        await released;
        for (let index = 0n; index < 10_000n; index += 1n) {
          await vi.waitFor(() => expect(received).toBeGreaterThan(Number(index)), { interval: 1, timeout: 30_000 });
          yield { index, result: { created: true } };
        }
        await reading;
      },
    }),
  );
  const done = importing(await fileOf(lines(10_000)), address);
  await vi.waitFor(() => expect(received).toBe(2_000), { timeout: 30_000 });
  await new Promise((resolve) => setTimeout(resolve, 100));
  expect(received).toBe(2_000);
  release();
  expect(await done).toMatchObject({ code: 0, out: expect.stringContaining("imported 10,000 connections") });
});

it("reports what is certain when the stream breaks, and how to continue", async () => {
  const control = await fakeControl((router) =>
    router.service(ConnectionService, {
      async *streamImportConnections(requests) {
        let index = 0n;
        for await (const _ of requests) {
          if (index === 100n) control.cut();
          yield { index, result: { created: true } };
          index += 1n;
        }
      },
    }),
  );
  const { code, out, err } = await importing(await fileOf(lines(5_000)), control.address);
  expect({ code, out }).toEqual({ code: 1, out: "" });
  expect(err).toMatch(/^latchkey: the import broke off: .*\(\w+\)\n/);
  const [, certain] = /lines up to (\d+) are confirmed: \d+ connections imported, 0 lines failed/.exec(err) ?? [];
  expect(Number(certain)).toBeLessThanOrEqual(101);
  expect(err).toMatch(/after that got no answer, and may or may not be imported/);
  expect(err).toContain(
    `running the file again is safe; --from-line ${Number(certain) + 1} continues where this ended`,
  );
});

it("does not call it safe to send lines again that name no connection_id", async () => {
  const { address } = await fakeControl((router) =>
    router.service(ConnectionService, {
      async *streamImportConnections(requests) {
        let index = 0n;
        for await (const _ of requests) {
          if (index === 3n) throw new ConnectError("the store is full", Code.Unavailable);
          yield { index, result: { created: true } };
          index += 1n;
        }
      },
    }),
  );
  const nameless = Array.from({ length: 10 }, () => line("", { connection_id: null })).join("\n");
  const { code, err } = await importing(await fileOf(nameless), address);
  expect(code).toBe(1);
  expect(err).toMatch(/broke off: the store is full \(unavailable\)/);
  expect(err).toMatch(/lines up to 3 are confirmed/);
  expect(err).toMatch(/lines without a connection_id: \d+; if you import these again, they may create/);
});

it.each([10, 50_000])("does not take an early end for success, with %d lines to go", async (count) => {
  const { address } = await fakeControl((router) =>
    router.service(ConnectionService, {
      async *streamImportConnections(requests) {
        let index = 0n;
        for await (const _ of requests) {
          yield { index, result: { created: true } };
          index += 1n;
          if (index === 5n) return;
        }
      },
    }),
  );
  const { code, err } = await importing(await fileOf(lines(count)), address);
  expect(code).toBe(1);
  expect(err).toMatch(/the import broke off/);
  expect(err).toMatch(/lines up to 5 are confirmed/);
});

it("distinguishes an unreadable file from a broken stream", async () => {
  const { routes } = importer();
  const { address } = await fakeControl(routes);
  const { code, err } = await importing(folder, address);
  expect(code).toBe(1);
  expect(err).toMatch(/EISDIR/);
});

it("stops on interrupt, and reports its progress", async () => {
  const { address } = await fakeControl((router) =>
    router.service(ConnectionService, {
      async *streamImportConnections(requests) {
        for await (const _ of requests) {
          yield { index: 0n, result: { created: true } };
          await new Promise(() => {});
        }
      },
    }),
  );
  const interrupt = new AbortController();
  const file = await fileOf(lines(10));
  setTimeout(() => interrupt.abort(), 200);
  const { code, err } = await importing(file, address, [], { signal: interrupt.signal });
  expect(code).toBe(1);
  expect(err).toMatch(/broke off: interrupted\n {2}lines up to 1 are confirmed/);
});

it("reports a refused key, and not a broken import", async () => {
  const { address } = await fakeControl((router) =>
    router.service(ConnectionService, {
      // biome-ignore lint/correctness/useYield: it is refused before there is anything to say.
      async *streamImportConnections() {
        throw new ConnectError("the key is not known", Code.Unauthenticated);
      },
    }),
  );
  const { code, err } = await importing(await fileOf(lines(10)), address);
  expect(code).toBe(1);
  expect(err).toMatch(/^latchkey: the key is not known \(unauthenticated\)\n {2}give a key/);
  expect(err).not.toContain("broke off");
});

it("reports a missing file", async () => {
  const { code, err } = await importing(join(folder, "none"), "127.0.0.1:1");
  expect(code).toBe(2);
  expect(err).toMatch(/^latchkey: cannot read .*none: no such file\n$/);
});

it("imports nothing from an empty file", async () => {
  const { routes } = importer();
  const { address } = await fakeControl(routes);
  const { code, out } = await importing(await fileOf(""), address);
  expect(code).toBe(0);
  expect(out).toMatch(/^imported 0 connections/);
});
