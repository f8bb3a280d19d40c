import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** A key of a running `latchkey dev`: the file that holds it, or the key itself if there is no file. */
export type DevKey = { readonly file: string } | { readonly value: string };

/** The running `latchkey dev` of this folder, so that commands find it without options. */
export interface DevState {
  readonly pid: number;
  readonly data: string;
  readonly control: string;
  readonly ops: string;
  readonly sandbox: string;
  readonly secretKey: DevKey;
  readonly adminKey: DevKey;
  /** The environment of the sample data. */
  readonly environment: string;
  /** The sandbox's grant behind each sample connection, by integration. */
  readonly grants: Readonly<Record<string, string>>;
  /** The path of the calendar's webhooks on the data listener. */
  readonly webhookPath: string;
  readonly scripts?: { readonly folder: string; readonly trial?: readonly string[] };
  /** The API key and the user that the sandbox accepts. */
  readonly accepted: { readonly apiKey: string; readonly user: { readonly name: string; readonly password: string } };
}

const folder = ".latchkey";
const file = join(folder, "dev.json");

/** Writes the file, for its owner only. Returns a function that removes it. */
export function writeDevState(state: Omit<DevState, "pid">): () => void {
  const { pid } = process;
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  writeFileSync(file, `${JSON.stringify({ pid, ...state }, null, 2)}\n`, { mode: 0o600 });
  return () => {
    // Another `latchkey dev` may have replaced it.
    if (readDevFile()?.pid === pid) rmSync(file, { force: true });
  };
}

/** Returns the state of the `latchkey dev` that runs in this folder; undefined if none runs. */
export function findDevState(): DevState | undefined {
  const state = readDevFile();
  return state !== undefined && isRunning(state.pid) ? state : undefined;
}

/** Returns the value of a key; undefined if its file cannot be read. */
export function devKeyValue(key: DevKey): string | undefined {
  if ("value" in key) return key.value;
  try {
    return readFileSync(key.file, "utf8").trim();
  } catch {
    return undefined;
  }
}

function readDevFile(): DevState | undefined {
  try {
    return JSON.parse(readFileSync(file, "utf8")) as DevState;
  } catch {
    return undefined;
  }
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // The process exists, and belongs to another user.
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}
