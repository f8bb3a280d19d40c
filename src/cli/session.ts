import type { DescService } from "@bufbuild/protobuf";
import type { Client } from "@connectrpc/connect";
import { type Command, Option } from "commander";
import { parseListenAddress } from "../base/http/listener.ts";
import { openControl } from "./control.ts";
import { findKey } from "./key.ts";
import { findDevState } from "./process/dev-state.ts";
import { durationMs } from "./terminal/option-values.ts";
import { createOutput, type Output, type OutputFormat, outputFormats } from "./terminal/output.ts";
import { createPaint } from "./terminal/paint.ts";
import type { Terminal } from "./terminal/terminal.ts";

/** Tools of a command that calls the control plane. */
export interface CommandSession {
  readonly terminal: Terminal;
  readonly output: Output;
  /** Address of the control plane. */
  readonly address: string;
  /** The key to call with; undefined: none was found. */
  readonly key: string | undefined;
  /** Empty: the key's own environment. */
  readonly environment: string;
  /** Time limit of a call, if the user set one. */
  readonly timeoutMs: number | undefined;
  client<S extends DescService>(service: S): Client<S>;
}

/** Parsed options shared by all commands that call the control plane. */
interface ControlCommandOptions {
  readonly address?: string;
  readonly key?: string;
  readonly keyFile?: string;
  readonly environment?: string;
  readonly json?: boolean;
  readonly output?: OutputFormat;
  readonly timeout?: number;
}

const defaultAddress = "http://127.0.0.1:3004";
const defaultTimeoutMs = 30_000;

/** Commander can read environment variables, but only those of the process: the variables shown here are read below. */
export const controlOptions: readonly Option[] = [
  new Option(
    "--address <address>",
    `address of the control plane: http://host:port or unix:/path (env: LATCHKEY_CONTROL or LATCHKEY_CONTROL_LISTEN; default: ${defaultAddress})`,
  ),
  new Option("--key <key>", "API key (env: LATCHKEY_KEY); visible to other users of this machine: prefer --key-file"),
  new Option("--key-file <file>", "file with the API key (env: LATCHKEY_ADMIN_KEY; default: ./.latchkey/admin-key)"),
  new Option("-e, --environment <name>", "name of the environment (env: LATCHKEY_ENVIRONMENT; default: the key's own)"),
  new Option(
    "-o, --output <format>",
    "format of the output; table is shortened to the terminal's width, wide is not",
  ).choices(outputFormats),
  new Option("--json", "print JSON: one document, or one per line for lists"),
  new Option("--timeout <duration>", "time limit of a call (default: 30s)").argParser(durationMs),
].map((option) => option.helpGroup("Control plane:"));

export type Act = <A extends readonly unknown[]>(
  perform: (session: CommandSession, ...args: A) => Promise<number> | Promise<void>,
) => (...args: A) => Promise<void>;

/** Returns the address of the control plane. */
export const addressOf = (command: Command, { env }: Terminal): string =>
  command.optsWithGlobals<ControlCommandOptions>().address ??
  (env.LATCHKEY_CONTROL ||
    listeningAddress(env["LATCHKEY_CONTROL_LISTEN"]) ||
    findDevState()?.control ||
    defaultAddress);

/** Returns the address that a Latchkey started from this shell listens on, so that `serve` and the commands agree. */
export function listeningAddress(listen: string | undefined): string | undefined {
  const address = listen === undefined || listen === "" ? undefined : parseListenAddress(listen);
  if (address?.kind === "unix") return `unix:${address.path}`;
  if (address === undefined || address.port === 0) return undefined;
  // A listener on all addresses includes this one.
  const host = ["", "0.0.0.0", "::", "[::]"].includes(address.host) ? "127.0.0.1" : address.host;
  return `http://${host.includes(":") && !host.startsWith("[") ? `[${host}]` : host}:${address.port}`;
}

/** Runs a function with a session, and always closes the connection afterwards. */
export async function withSession<T>(
  command: Command,
  terminal: Terminal,
  use: (session: CommandSession) => Promise<T>,
): Promise<T> {
  const {
    environment,
    json = false,
    output: format,
    timeout,
    ...given
  } = command.optsWithGlobals<ControlCommandOptions>();
  const address = addressOf(command, terminal);
  const source = given.address === undefined ? "LATCHKEY_CONTROL" : "--address";
  const key = await findKey(given, terminal);
  const control = openControl({
    address,
    source,
    key,
    timeoutMs: timeout ?? defaultTimeoutMs,
    signal: terminal.signal,
  });
  try {
    return await use({
      terminal,
      address,
      key,
      output: createOutput(terminal, { json, format, paint: createPaint(terminal) }),
      environment: environment ?? terminal.env.LATCHKEY_ENVIRONMENT ?? "",
      timeoutMs: timeout,
      client: control.client,
    });
  } finally {
    await control.close();
  }
}
