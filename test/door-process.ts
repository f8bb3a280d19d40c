import { writeFileSync } from "node:fs";
import http from "node:http";
import https from "node:https";
import { join } from "node:path";
import { expect } from "vitest";
import { createAuthority } from "./control-plane/certificates.ts";
import { temporaryFolder } from "./harness.ts";
import { type Running, serveInProcess } from "./process.ts";

export const doorNames = ["data", "public", "control", "ops"] as const;
export type DoorName = (typeof doorNames)[number];

interface DoorsOptions {
  readonly isTls?: boolean;
  readonly env?: Readonly<Record<string, string>>;
  /** The configuration file, as JSON. */
  readonly config?: Readonly<Record<string, unknown>>;
}

/** latchkey in a process of its own with all four doors open. */
export async function serveAllDoors({ isTls = false, env = {}, config = {} }: DoorsOptions = {}): Promise<Running> {
  const folder = await temporaryFolder();
  const file = join(folder, "latchkey.json");
  writeFileSync(file, JSON.stringify({ ...config, ...(isTls ? { tls: certificates(folder) } : {}) }));
  return serveInProcess({
    folder: join(folder, "store"),
    env: { LATCHKEY_PUBLIC_LISTEN: "127.0.0.1:0", LATCHKEY_CONFIG: file, ...env },
  });
}

function certificates(folder: string) {
  const { cert, key } = createAuthority(folder, "doors").issue("localhost", { names: "DNS:localhost,IP:127.0.0.1" });
  return Object.fromEntries(doorNames.map((door) => [door, { cert, key }]));
}

/** The status of a GET request on a connection of its own, or the code of its error. */
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

/** The process runs, its probes answer, and it logged no error. */
export async function expectUnharmed(running: Running, after: string): Promise<void> {
  const readiness = await statusAt(`${running.address("ops")}/readyz`);
  const { exitCode, signalCode } = running.child;
  const errors = running
    .stdout()
    .split("\n")
    .filter((line) => /"level":"(?:error|fatal)"/.test(line));
  expect({ after, readiness, exitCode, signalCode, errors }).toEqual({
    ...{ after, readiness: 200, exitCode: null, signalCode: null, errors: [] },
  });
}
