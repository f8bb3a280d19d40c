/** What the kernel was asked for, in order, says whether an answer waited for the disk. */
import { spawn } from "node:child_process";
import { mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it, onTestFinished } from "vitest";
import { temporaryFolder, testVariables } from "../harness.ts";
import { lacks } from "../needs.ts";
import { createCaller } from "./caller.ts";
import { compileDisk, createFaultyDisk } from "./disk.ts";
import { readTrace, type SystemCall } from "./trace.ts";

const main = fileURLToPath(new URL("../../src/main.ts", import.meta.url));
const ids = Array.from({ length: 48 }, (_, i) => `order-${i}-of-this-test`);

describe.skipIf(lacks("strace"))("what is answered", () => {
  it("S09 was synced before: after the record was appended, and before the answer is written", async () => {
    const folder = await temporaryFolder();
    const calls = await traceConnecting({ folder, env: {} });
    expect(ids.map((id) => orderOf(calls, id))).toEqual(ids.map(() => "appended, synced, answered"));
  });

  it.skipIf(lacks("compiler"))("S09 is found out when it was not synced: or this proves nothing", async () => {
    const folder = await temporaryFolder();
    const disk = createFaultyDisk({ folder: join(folder, "store"), shim: compileDisk(folder), noSync: ".log" });
    const calls = await traceConnecting({ folder, env: disk.env });
    expect(ids.map((id) => orderOf(calls, id))).toEqual(ids.map(() => "appended, answered"));
  });
});

interface Traced {
  readonly folder: string;
  /** For the traced process alone. */
  readonly env: Readonly<Record<string, string>>;
}

/** Runs a sidecar and makes connections, some at a time. Returns what was asked of the kernel meanwhile. */
async function traceConnecting({ folder, env }: Traced): Promise<readonly SystemCall[]> {
  const trace = join(folder, "trace");
  mkdirSync(join(folder, "store"), { recursive: true, mode: 0o700 });
  const watched = "trace=fdatasync,fsync,write,pwrite64,writev,sendto,sendmsg";
  // -D: the sidecar is our child, and strace its; -y: descriptors with their paths; -s: long enough for a whole record.
  const options = ["-D", "-f", "-q", "-y", "-s", "200000", "-e", watched, "-o", trace];
  const given = Object.entries(env).flatMap(([name, value]) => ["-E", `${name}=${value}`]);
  const child = spawn("strace", [...options, ...given, process.execPath, main, "serve"], {
    env: { PATH: process.env["PATH"], ...testVariables(folder) },
    stdio: ["ignore", "pipe", "inherit"],
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  const over = new Promise((resolve) => child.once("close", resolve));
  const data = createCaller(await addressOf(child.stdout));
  await data.furnish();
  const waiting = [...ids];
  const callers = Array.from({ length: 6 }, async () => {
    for (let id = waiting.shift(); id !== undefined; id = waiting.shift()) {
      if ((await data.connect(id)) !== 201) throw new Error(`${id} was not connected`);
    }
  });
  await Promise.all(callers);
  child.kill("SIGTERM");
  await over;
  await expect.poll(() => readFileSync(trace, "utf8").includes("+++ exited with 0 +++")).toBe(true);
  return readTrace(readFileSync(trace, "utf8"));
}

function addressOf(stdout: NodeJS.ReadableStream): Promise<string> {
  return new Promise((resolve, reject) => {
    let text = "";
    stdout.setEncoding("utf8");
    stdout.on("data", (more: string) => {
      text += more;
      const line = text.split("\n").find((one) => one.includes('"listening"') && one.includes('"door":"data"'));
      if (line !== undefined && text.includes('"phase":"ready"'))
        resolve((JSON.parse(line) as { address: string }).address);
    });
    stdout.once("end", () => reject(new Error(`it ended before it was ready:\n${text}`)));
  });
}

/** What happened to a connection, in order. */
function orderOf(calls: readonly SystemCall[], id: string): string {
  const append = calls.find(({ name, path, text }) => name !== "sync" && path.endsWith(".log") && text.includes(id));
  const answer = calls.find(
    ({ path, text }) => path.startsWith("socket:") && text.includes("HTTP/1.1 201") && text.includes(id),
  );
  if (append === undefined || answer === undefined) return `${id} was not found in the trace`;
  const isSynced = calls.some(
    ({ name, path, began, ended }) =>
      name === "sync" && path === append.path && began > append.ended && ended < answer.began,
  );
  return answer.began < append.ended
    ? "answered, appended"
    : isSynced
      ? "appended, synced, answered"
      : "appended, answered";
}
