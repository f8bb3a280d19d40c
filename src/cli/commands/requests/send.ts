import type { Command } from "commander";
import {
  type SendRequestResponse,
  SendRequestResponseSchema,
  TrafficService,
} from "../../../gen/latchkey/v1/traffic_pb.ts";
import type { Act, CommandSession } from "../../session.ts";
import { CommandError } from "../../terminal/command-error.ts";
import { escapeControl, escapeControlInLines } from "../../terminal/escape-control.ts";
import { readInputBytes } from "../../terminal/input.ts";
import { listed } from "../../terminal/option-values.ts";
import { type Terminal, write } from "../../terminal/terminal.ts";
import { UsageMistake } from "../../terminal/usage-mistake.ts";
import { type ConnectionName, connectionName, refOf } from "../connections/names.ts";

interface SendCommandOptions {
  readonly body?: string;
  readonly header?: readonly string[];
  readonly include?: true;
}

/** Adds `requests send`: like `call`, but with a key of the control plane. */
export function addSend(group: Command, act: Act): void {
  group
    .command("send")
    .summary("send a request to a provider with a control key, and leave an audit event")
    .argument("<integration/connection>", "for example calendar/ada", connectionName)
    .argument("<method>", "GET, POST, …")
    .argument("<path>", "path and query at the provider, for example /drive/v3/files")
    .option("-d, --body <text>", "body of the request, at most 1 MiB: text, @file, or - for stdin")
    .option("-H, --header <name: value>", "header of the request; repeatable", listed)
    .option("-i, --include", "print the status and headers of the response")
    .action(
      act(async (session, name: ConnectionName, method: string, path: string, given: SendCommandOptions) => {
        const answer = await session.client(TrafficService).sendRequest({
          connection: refOf(session, name),
          method: method.toUpperCase(),
          path,
          headers: (given.header ?? []).map(headerOf),
          body: given.body === undefined ? new Uint8Array() : await bodyOf(given.body, session.terminal),
        });
        await show(answer, session, given.include === true);
      }),
    );
}

const headerOf = (text: string) => {
  const at = text.indexOf(":");
  if (at < 1) throw new UsageMistake("--header must be 'Name: value'");
  return { name: text.slice(0, at).trim(), value: Buffer.from(text.slice(at + 1).trim()) };
};

const bodyOf = async (text: string, terminal: Terminal): Promise<Uint8Array> => {
  if (text === "-") return readInputBytes("-", terminal);
  return text.startsWith("@") ? readInputBytes(text.slice(1), terminal) : Buffer.from(text);
};

async function show(answer: SendRequestResponse, { output, terminal }: CommandSession, include: boolean) {
  const { status, headers, body, truncated, problem, totalMs, addedMs } = answer;
  if (output.json) return output.one(SendRequestResponseSchema, answer);
  if (problem !== undefined) throw new CommandError(problem.code, problem.message, []);
  if (include) {
    const fields = headers.map(({ name, value }) => `${name}: ${Buffer.from(value).toString("latin1")}`);
    const head = [`${status} in ${totalMs.toFixed(1)} ms, of which Latchkey ${addedMs.toFixed(1)} ms`, ...fields, ""];
    await write(terminal.stdout, `${head.map(escapeControl).join("\n")}\n`);
  }
  // A provider's text must not control the terminal.
  const text = Buffer.from(body).toString("utf8");
  await write(terminal.stdout, terminal.isTerminal ? escapeControlInLines(text) : body);
  if (terminal.isTerminal && !text.endsWith("\n")) await write(terminal.stdout, "\n");
  if (truncated) await output.note("The body is not complete.");
}
