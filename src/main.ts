#!/usr/bin/env node
import { readFileSync, statSync } from "node:fs";
import type { OwnCommand } from "./cli/process/own-command.ts";
import type { Process, Signal } from "./cli/process/process.ts";
import { createReader } from "./cli/process/reloading.ts";
import { serve } from "./cli/process/serve.ts";
import { runCli } from "./cli/program.ts";
import { variablesHelp } from "./config/variables.ts";

// Reads the arguments, environment and signals of the process, and sets its exit code. No other module reads them.

/**
 * Polling interval for files. Kubernetes swaps a whole folder behind a symlink: polling notices the swap, file events
 * do not.
 */
const watchEveryMs = 2_000;

/**
 * Describes the file that a path leads to now, through any symlinks. Node's own `watchFile` first reads the file some
 * time after the call.
 */
function stateOf(path: string): string {
  try {
    const { dev, ino, mode, size, mtimeNs, ctimeNs } = statSync(path, { bigint: true });
    return [dev, ino, mode, size, mtimeNs, ctimeNs].join();
  } catch (error) {
    return (error as NodeJS.ErrnoException).code ?? "unknown error";
  }
}

// Restrict new files to their owner: LevelDB would make its files readable to all.
process.umask(0o077);

// Ignore write errors on stdout and stderr (closed pipe, full disk): such errors are no defect of ours, and reporting
// them there would fail too, endlessly. Lost log lines are counted: each write reports its own failure to the counter.
for (const output of [process.stdout, process.stderr]) output.on("error", () => {});

const interrupted = new AbortController();
let stopping: ((signal: Signal) => void) | undefined;

for (const [signal, number] of [
  ["SIGTERM", 15],
  ["SIGINT", 2],
] as const) {
  process.on(signal, () => {
    if (interrupted.signal.aborted) process.exit(128 + number);
    interrupted.abort();
    stopping?.(signal);
  });
}

const own: Process = {
  env: process.env,
  stdout: process.stdout,
  stderr: process.stderr,
  isTerminal: process.stdout.isTTY === true,
  onSignal(handle) {
    stopping = handle;
    process.on("SIGHUP", () => handle("SIGHUP"));
    if (interrupted.signal.aborted) handle("SIGTERM");
  },
  onUnhandled(handle) {
    process.on("unhandledRejection", (reason) => handle("rejection", reason));
    process.on("uncaughtException", (error) => handle("exception", error));
  },
  watchFile(path, onChange) {
    let known = stateOf(path);
    const looking = setInterval(() => {
      const state = stateOf(path);
      if (state === known) return;
      known = state;
      onChange();
    }, watchEveryMs).unref();
    return () => clearInterval(looking);
  },
};

/** Loads the commands only when they are needed. */
const configCommands = () => import("./config/config-commands.ts");
const configIo = {
  env: process.env,
  files: createReader(),
  out: (text: string) => void process.stdout.write(text),
  err: (text: string) => void process.stderr.write(text),
};

const commands: readonly OwnCommand[] = [
  {
    name: "serve",
    summary: "run latchkey until it is told to stop",
    helpText: `Everything is configured by environment variables:\n\n${variablesHelp()}\n`,
    run: () => serve({ process: own }),
  },
  {
    name: "dev",
    summary: "run latchkey with a store of its own, and a sandbox to try it with",
    helpText:
      "Takes the variables of `latchkey serve`; makes what is missing in ./.latchkey, and connections to the sandbox.\n",
    options: [
      {
        flags: "--sandbox <address>",
        summary: "where that is: host:port, or :0 for any port (default: 127.0.0.1:3010)",
      },
    ],
    // Loaded on demand: `serve` does not need the modules that `dev` starts.
    run: async (_words, options) => (await import("./dev/dev.ts")).dev(own, options),
  },
  {
    name: "sandbox",
    summary: "run a stand-in for providers, to develop against",
    helpText: "OAuth 2, OAuth 1, files, mail, spreadsheets and calendars, with made-up users; prints how to use it.\n",
    options: [
      { flags: "--listen <address>", summary: "host:port, or :0 for any port (default: 127.0.0.1:3010)" },
      { flags: "--origin <url>", summary: "how others reach it, when not by what it listens on" },
    ],
    canJson: true,
    run: async (_words, options) => (await import("./dev/sandbox.ts")).sandbox(own, options),
  },
  {
    name: "config",
    summary: "about the configuration file",
    subcommands: [
      {
        name: "check",
        summary: "say all that is wrong with a configuration; nothing is started, no store is opened",
        arguments: ["[file]"],
        helpText:
          "Checks FILE, or what LATCHKEY_CONFIG names, with the variables of `latchkey serve` that are set here.\n" +
          "Exit code: 0 when it is valid, 78 when it is not.\n",
        canJson: true,
        run: async ([file], { json }) =>
          (await configCommands()).runConfigCheck(file, { ...configIo, json: json === true }),
      },
      {
        name: "diff",
        summary: "say what another configuration file would change, by name and without secrets",
        arguments: ["<file>", "[in-force]"],
        helpText:
          "Compares FILE with IN-FORCE, or with what LATCHKEY_CONFIG names. What may be a secret is only said to change.\n" +
          "Exit code: 0 when nothing would change, 1 when something would, 78 when one of them is not valid.\n",
        canJson: true,
        run: async (words, { json }) =>
          (await configCommands()).runConfigDiff(words, { ...configIo, json: json === true }),
      },
      {
        name: "schema",
        summary: "print the JSON Schema of the configuration file",
        run: async () => {
          process.stdout.write(readFileSync(new URL("./config/file.schema.json", import.meta.url)));
          return 0;
        },
      },
    ],
  },
];

process.exitCode = await runCli(
  process.argv.slice(2),
  {
    env: process.env,
    stdin: process.stdin,
    stdout: process.stdout,
    stderr: process.stderr,
    isTerminal: process.stdout.isTTY === true && process.stderr.isTTY === true,
    signal: interrupted.signal,
  },
  commands,
);
