#!/usr/bin/env node
import { readFileSync, statSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { SignalSource } from "./cli/process/child-program.ts";
import type { OwnCommand } from "./cli/process/own-command.ts";
import type { Process, Signal } from "./cli/process/process.ts";
import { createReader } from "./cli/process/reloading.ts";
import type { Terminal } from "./cli/terminal/terminal.ts";
import { edgeVariablesHelp } from "./config/edges/edge-variables.ts";
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
/** Set while a program runs in place of this process. */
let passing: ((signal: Signal) => void) | undefined;

for (const [signal, number] of [
  ["SIGTERM", 15],
  ["SIGINT", 2],
] as const) {
  process.on(signal, () => {
    if (passing !== undefined) {
      passing(signal);
      return;
    }
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

/** Loaded apart: an edge needs no store, no scripts and no dashboard. */
const serve = async () => (await import("./cli/process/serve.ts")).serve({ process: own });
const edge = async () => (await import("./cli/process/edge.ts")).edge(own);

/** Loads the commands only when they are needed. */
const configCommands = () => import("./config/config-commands.ts");
const configIo = {
  env: process.env,
  files: createReader(),
  out: (text: string) => void process.stdout.write(text),
  err: (text: string) => void process.stderr.write(text),
};

const childSignals: SignalSource = {
  hasKeyboard: process.stdin.isTTY === true,
  passTo(receive) {
    const onHangUp = () => receive("SIGHUP");
    process.on("SIGHUP", onHangUp);
    passing = receive;
    return () => {
      process.off("SIGHUP", onHangUp);
      passing = undefined;
    };
  },
};

const terminal: Terminal = {
  env: process.env,
  stdin: process.stdin,
  stdout: process.stdout,
  stderr: process.stderr,
  isTerminal: process.stdout.isTTY === true && process.stderr.isTTY === true,
  columns: process.stdout.columns,
  canAsk: process.stdin.isTTY === true && process.stderr.isTTY === true,
  signal: interrupted.signal,
  runProgram: async (program) => (await import("./cli/process/child-program.ts")).runChild(program, childSignals),
};

const commands: readonly OwnCommand[] = [
  {
    name: "serve",
    summary: "run Latchkey",
    helpText: `Configured by environment variables:\n\n${variablesHelp()}\n`,
    run: serve,
  },
  {
    name: "edge",
    summary: "run a sidecar without a store, which gets keys and credentials from brokers",
    helpText: `Configured by environment variables:\n\n${edgeVariablesHelp()}\n`,
    run: edge,
  },
  {
    name: "dev",
    summary: "run Latchkey for development, with a local store and the sandbox",
    helpText:
      "Accepts the variables of `latchkey serve`. Creates missing keys in ./.latchkey,\nand connections to the sandbox.\n",
    options: [
      {
        flags: "--sandbox <address>",
        summary: "address of the sandbox: host:port, or :0 for any port (default: 127.0.0.1:3010)",
      },
    ],
    // Loaded on demand: `serve` does not need the modules that `dev` starts.
    run: async (_words, options) => (await import("./dev/dev.ts")).dev(own, options),
  },
  {
    name: "tour",
    summary: "try Latchkey step by step, with the `latchkey dev` of this folder",
    helpText:
      "Shows a command, runs it when you press Enter, and says what its output means.\n" +
      "Without a terminal, all steps run one after the other.\n",
    options: [{ flags: "--print", summary: "print the commands, without running them" }],
    run: async (_words, { print }) =>
      (await import("./dev/tour-command.ts")).tour({
        terminal,
        print: print === true,
        program: [process.execPath, fileURLToPath(import.meta.url)],
      }),
  },
  {
    name: "sandbox",
    summary: "run fake providers for development",
    helpText:
      "Serves OAuth 2, OAuth 1, files, mail, spreadsheets and calendars with test users,\nand prints how to use them.\n",
    options: [
      {
        flags: "--listen <address>",
        summary: "address to listen on: host:port, or :0 for any port (default: 127.0.0.1:3010)",
      },
      { flags: "--origin <url>", summary: "URL that clients use, if it differs from the listen address" },
    ],
    canJson: true,
    run: async (_words, options) => (await import("./dev/sandbox.ts")).sandbox(own, options),
  },
  {
    name: "config",
    summary: "check, show and compare configurations",
    subcommands: [
      {
        name: "check",
        summary: "check a configuration, without starting anything",
        arguments: ["[file]"],
        helpText:
          "Checks FILE (default: LATCHKEY_CONFIG) and the environment variables of\n`latchkey serve`.\n" +
          "Exit code: 0 if it is valid, 78 if not.\n",
        canJson: true,
        run: async ([file], { json }) =>
          (await configCommands()).runConfigCheck(file, { ...configIo, json: json === true }),
      },
      {
        name: "show",
        summary: "show the configuration in force, and where each value is from; secrets are masked",
        arguments: ["[file]"],
        helpText:
          "Shows the environment variables of `latchkey serve` and FILE (default:\nLATCHKEY_CONFIG). Each value is from env, file or default. Secrets are `***`.\n",
        canJson: true,
        run: async ([file], { json }) =>
          (await configCommands()).runConfigShow(file, { ...configIo, json: json === true }),
      },
      {
        name: "diff",
        summary: "show what another configuration file would change; secrets are not shown",
        arguments: ["<file>", "[in-force]"],
        helpText:
          "Compares FILE with IN-FORCE (default: LATCHKEY_CONFIG). Values that may be secret\nare not shown.\n" +
          "Exit code: 0 if nothing would change, 1 if something would, 78 if a file is not\nvalid.\n",
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

const args = process.argv.slice(2);
// `serve` and `edge` alone, as deployments start them, need none of the command line's modules.
const alone = args.length === 1 ? { serve, edge }[args[0] ?? ""] : undefined;
process.exitCode =
  alone === undefined ? await (await import("./cli/program.ts")).runCli(args, terminal, commands) : await alone();
