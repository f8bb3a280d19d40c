import { mkdir, rename, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { JsonValue } from "@bufbuild/protobuf";
import { onTestFinished } from "vitest";
import {
  type ScriptHost,
  type ScriptLimits,
  type ScriptLine,
  type ScriptLocation,
  type ScriptOutcome,
  usualScriptLimits,
} from "../../../src/core/scripts/script.ts";
import { createScriptHost, type HostLimits, type ScriptHostOptions } from "../../../src/scripts/host.ts";
import { temporaryFolder } from "../../support/sidecar/harness.ts";

/** A host over its own folder, with real threads. */
export interface Hosted {
  readonly host: ScriptHost;
  readonly folder: string;
  readonly logged: readonly string[];
  /** Replaces the file by another one, as editors and deployments do. */
  write(file: string, text: string): Promise<void>;
  /** Runs the action of this name; `calls` and `lines` are its tool calls and output. */
  run(name: string, options?: RunOptions): Promise<Ran>;
}

export interface RunOptions {
  readonly kind?: ScriptLocation["kind"];
  readonly entry?: "exec" | "onWebhook";
  readonly input?: JsonValue;
  readonly limits?: Partial<ScriptLimits>;
  readonly signal?: AbortSignal;
  readonly lastSyncDate?: string;
  readonly tool?: (tool: string, given: readonly JsonValue[]) => JsonValue | undefined | Promise<JsonValue | undefined>;
}

export interface Ran {
  readonly outcome: ScriptOutcome;
  readonly calls: readonly { readonly tool: string; readonly given: readonly JsonValue[] }[];
  readonly lines: readonly ScriptLine[];
}

interface HostedOptions extends Partial<Pick<ScriptHostOptions, "isOwnPath">> {
  readonly limits?: Partial<HostLimits>;
}

export async function hosted(files: Readonly<Record<string, string>>, options: HostedOptions = {}): Promise<Hosted> {
  const folder = await temporaryFolder();
  const write = async (file: string, text: string) => {
    const path = join(folder, file);
    await mkdir(dirname(path), { recursive: true });
    await writeFile(`${path}.new`, text);
    await rename(`${path}.new`, path);
  };
  for (const [file, text] of Object.entries(files)) await write(file, text);
  return { ...(await hostedFrom(folder, options)), write };
}

export async function hostedFrom(folder: string, options: HostedOptions = {}): Promise<Omit<Hosted, "write">> {
  const logged: string[] = [];
  const keep = (message: string, fields: object = {}) => void logged.push(`${message} ${JSON.stringify(fields)}`);
  const host = await createScriptHost({
    folder,
    world: { log: { debug: keep, info: keep, warn: keep, error: keep }, now: Date.now },
    ...options,
    limits: { lookMs: 200, ...options.limits },
  });
  onTestFinished(() => host.close());
  return { host, folder, logged, run: (name, given) => run(host, name, given) };
}

async function run(host: ScriptHost, name: string, options: RunOptions = {}): Promise<Ran> {
  const script = host.find({ integration: "calendar", kind: options.kind ?? "action", name });
  if (script === undefined) throw new Error(`no script ${name}: ${JSON.stringify(host.broken())}`);
  const calls: { tool: string; given: readonly JsonValue[] }[] = [];
  const lines: ScriptLine[] = [];
  const outcome = await host.run(script, {
    entry: options.entry ?? "exec",
    row: "due",
    input: options.input,
    facts: {
      environment: "dev",
      integration: "calendar",
      connectionId: "ada",
      provider: "google-calendar",
      variant: "base",
      lastSyncDate: options.lastSyncDate,
      runId: "run-1",
    },
    tools: {
      async call(tool, given) {
        calls.push({ tool, given });
        return await options.tool?.(tool, given);
      },
      log: (line) => void lines.push(line),
    },
    limits: { ...usualScriptLimits, ...options.limits },
    signal: options.signal ?? new AbortController().signal,
  });
  return { outcome, calls, lines };
}

/** An action without schemas that does this. */
export const action = (body: string, imports = ""): string => `import { createAction } from "latchkey/scripts";
${imports}
export default createAction({
  description: "",
  // biome-ignore lint: whatever a test wants
  exec: async (nango: any, input: any) => {
${body}
  },
});
`;

export const output = ({ outcome }: Ran): JsonValue | undefined => {
  if (outcome.kind === "done") return outcome.output;
  throw new Error(`${outcome.failure.code}: ${outcome.failure.message}\n${outcome.failure.stack.join("\n")}`);
};

export const failure = ({ outcome }: Ran) => {
  if (outcome.kind === "failed") return outcome.failure;
  throw new Error(`it did not fail: ${JSON.stringify(outcome.output)}`);
};
