import type { ConfigChange } from "../core/config-in-force.ts";
import { checkConfig } from "./check-config.ts";
import { diffConfig } from "./diff-config.ts";
import { readConfigFile } from "./read-file.ts";
import type { FileReader } from "./secrets.ts";
import { settingsOf } from "./show-config.ts";

/** EX_CONFIG of sysexits.h, the exit code of `latchkey serve`. */
const invalidExitCode = 78;
const changedExitCode = 1;
const usageExitCode = 2;

interface ConfigCommand {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly files: FileReader;
  readonly json: boolean;
  readonly out: (text: string) => void;
  readonly err: (text: string) => void;
}

/** `latchkey config check [file]`. */
export function runConfigCheck(file: string | undefined, { env, files, json, out, err }: ConfigCommand): number {
  const { mistakes, warnings } = checkConfig({ env, files, file });
  const isValid = mistakes.length === 0;
  if (json) out(`${JSON.stringify({ valid: isValid, mistakes, warnings })}\n`);
  else {
    for (const warning of warnings) err(`latchkey: ${warning}\n`);
    const hasFile = file !== undefined || Boolean(env["LATCHKEY_CONFIG"]?.trim());
    if (isValid) out(hasFile ? "the configuration is valid\n" : "the environment variables are valid\n");
    else err(`latchkey: the configuration is not valid:\n${mistakes.map((one) => `  - ${one}\n`).join("")}`);
  }
  return isValid ? 0 : invalidExitCode;
}

/** `latchkey config show [file]`. */
export function runConfigShow(given: string | undefined, { env, files, json, out, err }: ConfigCommand): number {
  const file = given ?? (env["LATCHKEY_CONFIG"]?.trim() || undefined);
  const { mistakes } = checkConfig({ env, files, file });
  // The seal key is the only setting without which nothing else could be shown.
  const relevant = mistakes.filter((one) => !one.startsWith("LATCHKEY_SEAL_KEYS"));
  if (relevant.length > 0) {
    err(`latchkey: the configuration is not valid:\n${mistakes.map((one) => `  - ${one}\n`).join("")}`);
    return invalidExitCode;
  }
  const settings = settingsOf({ env, files, file });
  const widest = Math.max(...settings.map(({ name }) => name.length));
  for (const setting of settings) {
    const { name, value, from, line } = setting;
    const origin = line === undefined ? from : `${from}:${line}`;
    out(json ? `${JSON.stringify(setting)}\n` : `${name.padEnd(widest)}  ${origin.padEnd(8)}  ${value}\n`);
  }
  return 0;
}

/** `latchkey config diff <file> [in-force]`. */
export function runConfigDiff(words: readonly string[], command: ConfigCommand): number {
  const { env, files, json, out, err } = command;
  const [after = "", before = env["LATCHKEY_CONFIG"] ?? ""] = words;
  if (before === "") {
    err("latchkey: give the file in force as a second argument, or set LATCHKEY_CONFIG\n");
    return usageExitCode;
  }
  for (const file of [before, after]) {
    const mistakes = [...checkConfig({ env, files, file }).mistakes];
    // A reload refuses an empty file as well, at which a start only warns.
    if (mistakes.length === 0) readConfigFile({ path: file, files, refuse: (message) => void mistakes.push(message) });
    if (mistakes.length === 0) continue;
    err(`latchkey: ${file} is not valid:\n${mistakes.map((one) => `  - ${one}\n`).join("")}`);
    return invalidExitCode;
  }
  const changes = diffConfig({ before, after, files });
  for (const change of changes) out(json ? `${JSON.stringify(change)}\n` : `${changeText(change)}\n`);
  if (changes.length === 0 && !json) err("nothing would change\n");
  return changes.length === 0 ? 0 : changedExitCode;
}

function changeText({ path, kind, before, after }: ConfigChange): string {
  if (kind === "added") return `+ ${path}${after === undefined ? "" : `: ${after}`}`;
  if (kind === "removed") return `- ${path}${before === undefined ? "" : `: ${before}`}`;
  return before === undefined || after === undefined ? `~ ${path}: changed` : `~ ${path}: ${before} -> ${after}`;
}
