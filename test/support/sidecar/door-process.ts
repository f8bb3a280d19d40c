import { readdirSync, readFileSync, readlinkSync, writeFileSync } from "node:fs";
import http from "node:http";
import https from "node:https";
import { join } from "node:path";
import { expect } from "vitest";
import { createAuthority } from "../../cases/control-plane/certificates.ts";
import { temporaryFolder } from "./harness.ts";
import { type Running, serveInProcess } from "./process.ts";

export const doorNames = ["data", "public", "control", "ops"] as const;
export type DoorName = (typeof doorNames)[number];

interface DoorsOptions {
  readonly isTls?: boolean;
  readonly env?: Readonly<Record<string, string>>;
  /** The configuration file, as JSON. */
  readonly config?: Readonly<Record<string, unknown>>;
  /** Records created first, through listeners without TLS, and the provider's port. */
  readonly filled?: { readonly port: number; readonly fill: (running: Running) => Promise<void> };
}

/** latchkey in its own process with all four listeners. */
export async function serveAllDoors(options: DoorsOptions = {}): Promise<Running> {
  const { isTls = false, env = {}, config = {}, filled } = options;
  const folder = await temporaryFolder();
  const file = join(folder, "latchkey.json");
  const provider = filled === undefined ? {} : { LATCHKEY_ALLOW_PRIVATE: `http://127.0.0.1:${filled.port}` };
  const start = (written: object) => {
    writeFileSync(file, JSON.stringify(written));
    const given = { LATCHKEY_PUBLIC_LISTEN: "127.0.0.1:0", LATCHKEY_CONFIG: file, ...provider, ...env };
    return serveInProcess({ folder: join(folder, "store"), env: given });
  };
  if (filled !== undefined) {
    const plain = await start(config);
    await filled.fill(plain);
    plain.child.kill("SIGTERM");
    await plain.exited;
  }
  return start({ ...config, ...(isTls ? { tls: certificates(folder) } : {}) });
}

function certificates(folder: string) {
  const { cert, key } = createAuthority(folder, "doors").issue("localhost", { names: "DNS:localhost,IP:127.0.0.1" });
  return Object.fromEntries(doorNames.map((door) => [door, { cert, key }]));
}

/** The status of a GET request on a new connection, or the code of its error. */
export function statusAt(url: string): Promise<number | string> {
  return new Promise((resolve) => {
    const { get } = url.startsWith("https:") ? https : http;
    const request = get(url, { agent: false, rejectUnauthorized: false, timeout: 5_000 }, (response) => {
      response.resume().once("end", () => resolve(response.statusCode ?? 0));
    });
    request.on("timeout", () => request.destroy(Object.assign(new Error("timeout"), { code: "ETIMEDOUT" })));
    request.on("error", ({ code }: NodeJS.ErrnoException) => resolve(code ?? "error"));
  });
}

/** The same, of a process that gets little of a busy machine's time. */
export async function lateStatusAt(url: string): Promise<number | string> {
  let status = await statusAt(url);
  for (let more = 0; more < 5 && status === "ETIMEDOUT"; more += 1) status = await statusAt(url);
  return status;
}

/** The process runs, its probes answer, and it logged no error. */
export async function expectUnharmed(running: Running, after: string): Promise<void> {
  const readiness = await lateStatusAt(`${running.address("ops")}/readyz`);
  const { exitCode, signalCode } = running.child;
  const errors = running
    .stdout()
    .split("\n")
    .filter((line) => /"level":"(?:error|fatal)"/.test(line));
  expect({ after, readiness, exitCode, signalCode, errors }).toEqual({
    ...{ after, readiness: 200, exitCode: null, signalCode: null, errors: [] },
  });
}

/** The number of open file descriptors of the process. */
export const openFiles = ({ child }: Running): number => readdirSync(`/proc/${child.pid}/fd`).length;

/** What the open file descriptors of the process are: files, sockets and pipes. */
export function openFileNames({ child }: Running): readonly string[] {
  const folder = `/proc/${child.pid}/fd`;
  return readdirSync(folder).flatMap((descriptor) => {
    try {
      return [readlinkSync(join(folder, descriptor))];
    } catch (error) {
      // Closed meanwhile.
      if ((error as NodeJS.ErrnoException).code === "ENOENT") return [];
      throw error;
    }
  });
}

/** The body of a GET request. */
export function textAt(url: string): Promise<string> {
  const { get } = url.startsWith("https:") ? https : http;
  return new Promise((resolve, reject) => {
    get(url, { agent: false, rejectUnauthorized: false }, (response) => {
      let text = "";
      response.setEncoding("utf8").on("data", (chunk: string) => {
        text += chunk;
      });
      response.once("end", () => resolve(text)).once("error", reject);
    }).once("error", reject);
  });
}

/** The memory of the process, in MiB. */
export const memoryOf = ({ child }: Running): number =>
  Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${child.pid}/status`, "utf8"))?.[1]) / 1_024;
