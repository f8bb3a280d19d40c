import type { DescService } from "@bufbuild/protobuf";
import type { Client } from "@connectrpc/connect";
import { type Command, Option } from "commander";
import { parseListenAddress } from "../base/http/listener.ts";
import { openControl } from "./control.ts";
import { findKey } from "./key.ts";
import { durationMs } from "./terminal/option-values.ts";
import { createOutput, type Output } from "./terminal/output.ts";
import { createPaint } from "./terminal/paint.ts";
import type { Terminal } from "./terminal/terminal.ts";

/** What a command over the control plane works with. */
export interface CommandSession {
  readonly terminal: Terminal;
  readonly output: Output;
  /** Of the control plane. */
  readonly address: string;
  /** Empty: the key's own. */
  readonly environment: string;
  /** How long a call may take, where the person has said it. */
  readonly timeoutMs: number | undefined;
  client<S extends DescService>(service: S): Client<S>;
}

/** The options that every command over the control plane takes, as commander has read them. */
interface ControlCommandOptions {
  readonly address?: string;
  readonly key?: string;
  readonly keyFile?: string;
  readonly environment?: string;
  readonly json?: boolean;
  readonly timeout?: number;
}

const defaultAddress = "http://127.0.0.1:3004";
const defaultTimeoutMs = 30_000;

/** Commander can read the environment by itself, but only the process's own: what is said here of it is done below. */
export const controlOptions: readonly Option[] = [
  new Option(
    "--address <address>",
    `the control plane: http://host:port or unix:/path (env: LATCHKEY_CONTROL, else LATCHKEY_CONTROL_LISTEN, default: ${defaultAddress})`,
  ),
  new Option("--key <key>", "the key to call with (env: LATCHKEY_KEY); others on this machine can see it, so rather:"),
  new Option(
    "--key-file <file>",
    "a file that holds the key (default: env LATCHKEY_ADMIN_KEY, else ./.latchkey/admin-key)",
  ),
  new Option("-e, --environment <name>", "the environment (env: LATCHKEY_ENVIRONMENT; default: the key's own)"),
  new Option("--json", "answer in JSON: one document, of a list one a line"),
  new Option("--timeout <duration>", "how long a call may take (default: 30s)").argParser(durationMs),
].map((option) => option.helpGroup("Control plane:"));

export type Act = <A extends readonly unknown[]>(
  perform: (session: CommandSession, ...args: A) => Promise<number> | Promise<void>,
) => (...args: A) => Promise<void>;

/** Where the control plane is looked for. */
export const addressOf = (command: Command, { env }: Terminal): string =>
  command.optsWithGlobals<ControlCommandOptions>().address ??
  (env.LATCHKEY_CONTROL || listeningAddress(env["LATCHKEY_CONTROL_LISTEN"]) || defaultAddress);

/** Where a latchkey of this shell listens: what `serve` is told is where the commands look. */
function listeningAddress(listen: string | undefined): string | undefined {
  const address = listen === undefined || listen === "" ? undefined : parseListenAddress(listen);
  if (address?.kind === "unix") return `unix:${address.path}`;
  if (address === undefined || address.port === 0) return undefined;
  // On every address: then also on this one.
  const host = ["", "0.0.0.0", "::", "[::]"].includes(address.host) ? "127.0.0.1" : address.host;
  return `http://${host.includes(":") && !host.startsWith("[") ? `[${host}]` : host}:${address.port}`;
}

/** Runs something with a session, and closes the connection behind it whatever becomes of it. */
export async function withSession<T>(
  command: Command,
  terminal: Terminal,
  use: (session: CommandSession) => Promise<T>,
): Promise<T> {
  const { environment, json = false, timeout, ...given } = command.optsWithGlobals<ControlCommandOptions>();
  const address = addressOf(command, terminal);
  const key = await findKey(given, terminal);
  const control = openControl({ address, key, timeoutMs: timeout ?? defaultTimeoutMs, signal: terminal.signal });
  try {
    return await use({
      terminal,
      address,
      output: createOutput(terminal, { json, paint: createPaint(terminal) }),
      environment: environment ?? terminal.env.LATCHKEY_ENVIRONMENT ?? "",
      timeoutMs: timeout,
      client: control.client,
    });
  } finally {
    await control.close();
  }
}
