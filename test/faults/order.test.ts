/** The order of system calls shows whether a response waited for the disk. */
import { spawn } from "node:child_process";
import { mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it, onTestFinished } from "vitest";
import { temporaryFolder, testVariables } from "../support/sidecar/harness.ts";
import { lacks } from "../support/sidecar/needs.ts";
import { calendarUri, sendRaw } from "../support/sidecar/receiving.ts";
import { createCaller } from "./caller.ts";
import { compileDisk, createFaultyDisk } from "./disk.ts";
import { restOf } from "./loss/service.ts";
import { readTrace, type SystemCall } from "./trace.ts";

const main = fileURLToPath(new URL("../../src/main.ts", import.meta.url));
const ids = Array.from({ length: 48 }, (_, i) => `order-${i}-of-this-test`);

describe.skipIf(lacks("strace"))("an answer", () => {
  it("S09 was synced before: after the record was appended, and before the answer is written", async () => {
    const folder = await temporaryFolder();
    const calls = await trace({ folder, env: {}, work: connectAll });
    expect(ids.map((id) => orderOf(calls, id))).toEqual(ids.map(() => "appended, synced, answered"));
  });

  it.skipIf(lacks("compiler"))("S09 is detected if it was not synced: otherwise this proves nothing", async () => {
    const folder = await temporaryFolder();
    const disk = createFaultyDisk({ folder: join(folder, "store"), shim: compileDisk(folder), noSync: ".log" });
    const calls = await trace({ folder, env: disk.env, work: connectAll });
    expect(ids.map((id) => orderOf(calls, id))).toEqual(ids.map(() => "appended, answered"));
  });

  it("W02 to a webhook comes after the sync of the webhook and its deliveries", async () => {
    const calls = await trace({ folder: await temporaryFolder(), env: {}, work: notifyAll });
    expect(ordersOfWebhooks(calls)).toEqual(ids.map(() => "appended, synced, answered"));
  });

  it.skipIf(lacks("compiler"))("W02 to a webhook is detected too when nothing is synced", async () => {
    const folder = await temporaryFolder();
    const disk = createFaultyDisk({ folder: join(folder, "store"), shim: compileDisk(folder), noSync: ".log" });
    const calls = await trace({ folder, env: disk.env, work: notifyAll });
    expect(ordersOfWebhooks(calls)).toEqual(ids.map(() => "appended, answered"));
  });
});

interface Traced {
  readonly folder: string;
  /** For the traced process only. */
  readonly env: Readonly<Record<string, string>>;
  /** Calls to its data listener. */
  readonly work: (address: string) => Promise<void>;
}

/** Makes connections, some at a time. */
async function connectAll(address: string): Promise<void> {
  const data = createCaller(address);
  await data.setUp();
  const waiting = [...ids];
  const callers = Array.from({ length: 6 }, async () => {
    for (let id = waiting.shift(); id !== undefined; id = waiting.shift()) {
      if ((await data.connect(id)) !== 201) throw new Error(`${id} was not connected`);
    }
  });
  await Promise.all(callers);
}

/** Sends webhooks one after another, each over its own connection: their responses do not name them. */
async function notifyAll(address: string): Promise<void> {
  const to = { data: address };
  await restOf(to, "POST", "/integrations", { unique_key: "calendar", provider: "calendar" });
  const { data } = await restOf(to, "GET", "/integrations/calendar?include=webhook");
  const url = `${address}${new URL(data.webhook_url).pathname}`;
  for (const id of ids) {
    const head = {
      connection: "close",
      "x-cal-channel-id": id,
      "x-cal-resource-uri": calendarUri("ada"),
      "x-cal-message-number": "1",
    };
    if ((await sendRaw(url, head)) !== 200) throw new Error(`${id} was not taken`);
  }
}

/** Runs a sidecar and returns its system calls. */
async function trace({ folder, env, work }: Traced): Promise<readonly SystemCall[]> {
  const file = join(folder, "trace");
  mkdirSync(join(folder, "store"), { recursive: true, mode: 0o700 });
  const watched = "trace=fdatasync,fsync,write,pwrite64,writev,sendto,sendmsg";
  // -D: the sidecar is our child, and strace its; -y: descriptors with their paths; -s: long enough for a whole record.
  const options = ["-D", "-f", "-q", "-y", "-s", "200000", "-e", watched, "-o", file];
  const given = Object.entries(env).flatMap(([name, value]) => ["-E", `${name}=${value}`]);
  const child = spawn("strace", [...options, ...given, process.execPath, main, "serve"], {
    env: { PATH: process.env["PATH"], ...testVariables(folder) },
    stdio: ["ignore", "pipe", "inherit"],
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  const over = new Promise((resolve) => child.once("close", resolve));
  await work(await addressOf(child.stdout));
  child.kill("SIGTERM");
  await over;
  await expect.poll(() => readFileSync(file, "utf8").includes("+++ exited with 0 +++")).toBe(true);
  return readTrace(readFileSync(file, "utf8"));
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

/** The events of a connection, in order. */
function orderOf(calls: readonly SystemCall[], id: string): string {
  const answer = calls.find(
    ({ path, text }) => path.startsWith("socket:") && text.includes("HTTP/1.1 201") && text.includes(id),
  );
  return orderOfBoth(calls, id, answer);
}

/** The events of each webhook; they were answered in the order in which they were sent. */
function ordersOfWebhooks(calls: readonly SystemCall[]): readonly string[] {
  const answers = calls.filter(
    ({ path, text }) => path.startsWith("socket:") && text.includes("HTTP/1.1 200") && text.includes(taken),
  );
  if (answers.length !== ids.length) return [`${answers.length} answers to ${ids.length} webhooks`];
  return ids.map((id, i) => orderOfBoth(calls, id, answers[i]));
}

/** In the notation of strace. */
const taken = '{\\"status\\":\\"success\\"}';

function orderOfBoth(calls: readonly SystemCall[], id: string, answer: SystemCall | undefined): string {
  const append = calls.find(({ name, path, text }) => name !== "sync" && path.endsWith(".log") && text.includes(id));
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
