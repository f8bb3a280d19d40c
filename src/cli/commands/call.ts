import type { IncomingMessage } from "node:http";
import { type Command, Option } from "commander";
import { dataAddressOf, dataOption } from "../data/data-address.ts";
import { sendToData } from "../data/data-request.ts";
import { findEnvironmentKey } from "../data/environment-key.ts";
import { commandWord } from "../process/command-word.ts";
import { type Act, controlOptions } from "../session.ts";
import { CommandError } from "../terminal/command-error.ts";
import { escapeControl, escapeControlInLines } from "../terminal/escape-control.ts";
import { exitCodes } from "../terminal/exit-codes.ts";
import { readInputBytes } from "../terminal/input.ts";
import { count, listed } from "../terminal/option-values.ts";
import { type Terminal, write } from "../terminal/terminal.ts";
import { UsageMistake } from "../terminal/usage-mistake.ts";
import { type ConnectionName, connectionName, nameOf } from "./connections/names.ts";

/** Exit codes of a provider's error responses. */
const clientErrorExitCode = 4;
const serverErrorExitCode = 5;

interface CallOptions {
  readonly data?: string;
  readonly body?: string;
  readonly header?: readonly string[];
  readonly include?: true;
  readonly retries?: number;
  readonly baseUrl?: string;
  readonly furtherToken?: string;
  readonly key?: string;
  readonly keyFile?: string;
}

/** Adds `call`: a request to a provider through the proxy, like curl. */
export function addCall(program: Command, act: Act): void {
  const command = program.command("call");
  command
    .summary("call a provider's API through the proxy, like curl")
    .argument("<integration/connection>", "for example calendar/ada", connectionName)
    .argument("<method-or-path>", "GET, POST, …; can be left out: GET, or POST with --body")
    .argument("[path]", "path and query at the provider, for example /drive/v3/files")
    .option("-d, --body <text>", "body of the request: text, @file, or - for stdin")
    .option("-H, --header <name: value>", "header of the request; repeatable", listed)
    .option("-i, --include", "print the status and headers of the response")
    .addOption(new Option("--retries <count>", "let Latchkey retry failed requests").argParser(count))
    .option("--base-url <origin>", "another origin of the provider (Base-Url-Override)")
    .option("--further-token <name>", "a further token of the connection, such as user (Latchkey-Token)")
    .addOption(dataOption())
    .configureHelp({
      ...command.configureHelp(),
      visibleGlobalOptions: () => controlOptions.filter(({ long }) => long === "--key" || long === "--key-file"),
    })
    .action(
      act(
        (
          { terminal },
          name: ConnectionName,
          first: string,
          second: string | undefined,
          _own: unknown,
          self: Command,
        ) => {
          const given = self.optsWithGlobals<CallOptions>();
          return call({ terminal, name, ...targetOf(first, second, given) }, given);
        },
      ),
    );
}

/** Splits `[METHOD] PATH`. */
function targetOf(first: string, second: string | undefined, { body }: CallOptions) {
  const path = second ?? first;
  const method = second === undefined ? (body === undefined ? "GET" : "POST") : first.toUpperCase();
  if (!/^[!#$%&'*+.^_`|~0-9A-Z-]+$/.test(method)) throw new UsageMistake(`${method} is not an HTTP method`);
  if (/^https?:\/\//.test(path)) {
    throw new UsageMistake("give the path alone, for example /v1/users; --base-url names another origin");
  }
  return { method, path: path.startsWith("/") ? path : `/${path}` };
}

interface CallTarget {
  readonly terminal: Terminal;
  readonly name: ConnectionName;
  readonly method: string;
  readonly path: string;
}

async function call({ terminal, name, method, path }: CallTarget, given: CallOptions): Promise<number> {
  const address = dataAddressOf(given.data, terminal);
  const key = await findEnvironmentKey(given, terminal);
  const body = given.body === undefined ? undefined : await readBody(given.body, terminal);
  const own = (given.header ?? []).map(headerOf);
  const isTyped = own.some(([field]) => field.toLowerCase() === "content-type");
  const headers = [
    ["authorization", `Bearer ${key}`],
    ["provider-config-key", name.integration],
    ["connection-id", name.id],
    ...(given.retries === undefined ? [] : [["retries", String(given.retries)]]),
    ...(given.furtherToken === undefined ? [] : [["latchkey-token", given.furtherToken]]),
    ...(given.baseUrl === undefined ? [] : [["base-url-override", given.baseUrl]]),
    ...(body === undefined
      ? []
      : [["content-length", String(body.length)], ...(isTyped ? [] : [["content-type", typeOf(body)]])]),
    ...own,
  ];
  let response: IncomingMessage;
  try {
    response = await sendToData(address, {
      method,
      path: `/proxy${encodePath(path)}`,
      headers: headers.flat(),
      body,
      signal: terminal.signal,
    });
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (terminal.signal.aborted) throw error;
    throw new CommandError(
      "unavailable",
      `the data listener cannot be reached at ${address.text}${code === "ECONNREFUSED" ? "" : `: ${message || code}`}`,
      ["is Latchkey running? Set its address with --data or LATCHKEY_DATA"],
    );
  }
  return show(response, { terminal, name, include: given.include === true });
}

/** Encodes spaces and letters that HTTP does not allow, and keeps what is already encoded. */
const encodePath = (path: string): string => encodeURI(path).replaceAll("%25", "%");

const headerOf = (text: string): [string, string] => {
  const at = text.indexOf(":");
  if (at < 1) throw new UsageMistake("--header must be 'Name: value'");
  return [text.slice(0, at).trim(), text.slice(at + 1).trim()];
};

const readBody = async (text: string, terminal: Terminal): Promise<Uint8Array> =>
  text === "-"
    ? readInputBytes("-", terminal)
    : text.startsWith("@")
      ? readInputBytes(text.slice(1), terminal)
      : Buffer.from(text);

/** Returns the content type of a body: JSON if it is, otherwise that of a form, as curl says. */
function typeOf(body: Uint8Array): string {
  try {
    JSON.parse(Buffer.from(body).toString("utf8"));
    return "application/json";
  } catch {
    return "application/x-www-form-urlencoded";
  }
}

interface ShowOptions {
  readonly terminal: Terminal;
  readonly name: ConnectionName;
  readonly include: boolean;
}

async function show(response: IncomingMessage, { terminal, name, include }: ShowOptions): Promise<number> {
  const { statusCode: status = 0, statusMessage = "", rawHeaders } = response;
  const ownCode = response.headers["latchkey-error"];
  if (include) {
    const fields = rawHeaders.flatMap((text, i) => (i % 2 === 0 ? [`${text}: ${rawHeaders[i + 1]}`] : []));
    const head = [`HTTP/${response.httpVersion} ${status} ${statusMessage}`, ...fields, "", ""].join("\n");
    await write(terminal.stdout, terminal.isTerminal ? escapeControlInLines(head) : head);
  }
  if (typeof ownCode === "string" && !include) throw refusal(await textOf(response), ownCode);
  let last = "\n";
  if (terminal.isTerminal) response.setEncoding("utf8");
  for await (const chunk of response) {
    // A provider's text must not control the terminal.
    const shown: string | Uint8Array = typeof chunk === "string" ? escapeControlInLines(chunk) : chunk;
    if (typeof shown === "string") last = shown.at(-1) ?? last;
    await write(terminal.stdout, shown);
  }
  if (terminal.isTerminal && last !== "\n") await write(terminal.stdout, "\n");
  const state = response.headers["latchkey-connection-state"];
  if (typeof state === "string" && state !== "active") {
    const reconnect = `${commandWord(terminal.env)} connections reconnect ${nameOf(name)}`;
    const hint = `latchkey: the connection is ${state}: use \`${reconnect}\``;
    await write(terminal.stderr, `${escapeControl(hint)}\n`);
  }
  if (typeof ownCode === "string") return exitCodes.failed;
  return status >= 500 ? serverErrorExitCode : status >= 400 ? clientErrorExitCode : exitCodes.ok;
}

async function textOf(response: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of response) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString("utf8");
}

/** Returns the error that Latchkey itself answered with. */
function refusal(text: string, code: string): CommandError {
  let error: { message?: unknown; hint?: unknown; doc_url?: unknown } = {};
  try {
    error = (JSON.parse(text) as { error?: typeof error }).error ?? {};
  } catch {
    /* Not JSON: the code says enough. */
  }
  const note = (value: unknown) => (typeof value === "string" && value !== "" ? [value] : []);
  const message = typeof error.message === "string" ? error.message : "the request was refused";
  return new CommandError(code, message, [...note(error.hint), ...note(error.doc_url).map((url) => `see ${url}`)]);
}
