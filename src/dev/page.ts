import { command, curlTarget, quoted } from "./shell.ts";

interface DevPageData {
  readonly data: string;
  readonly control: string;
  readonly ops: string;
  /** Address of the dashboard; undefined if it is off. */
  readonly dashboard: string | undefined;
  readonly sandbox: string;
  /** The shell word that gives the secret key: `$(cat .latchkey/secret-key)`. */
  readonly keyWord: string;
  /** How the command line is called. */
  readonly latchkey: string;
  /** Sample connections that were not replaced, since the developer has changed them. */
  readonly kept: readonly string[];
}

/** Returns the text that `latchkey dev` prints once it is ready. */
export function devPage({ data, control, ops, dashboard, sandbox, keyWord, latchkey, kept }: DevPageData): string {
  const listeners = [
    ["data", data, "your service calls this"],
    ["control", control, "the command line calls this"],
    ["ops", ops, "health and metrics"],
    ["sandbox", `${sandbox}/_sandbox`, "a page: its users and requests"],
    ...(dashboard === undefined ? [] : [["dashboard", dashboard, "a page: everything in Latchkey"] as const]),
  ] as const;
  const widest = Math.max(...listeners.map(([, address]) => address.length));
  const lines = listeners.map(([name, address, use]) => `  ${name.padEnd(11)}${address.padEnd(widest)}   ${use}`);
  const notReplaced = kept.length === 0 ? "" : `\nNot replaced, because they are yours: ${kept.join(", ")}.\n`;
  return `
Latchkey is ready. Stop with Ctrl-C.
Ada, a test user of the sandbox, a fake provider, has connected her accounts.

${lines.join("\n")}
${notReplaced}
In a second terminal, in this folder, get Ada's files:

  export KEY=${keyWord}
${filesCall(data)}
${mcpLine(data)}
  ${latchkey} tour   more to try, step by step
${dashboard === undefined ? "" : `  ${latchkey} open   the dashboard, signed in\n`}`;
}

const filesCall = (data: string): string =>
  command(
    "curl",
    ...curlTarget(data, "/proxy/drive/v3/files?pageSize=3"),
    '-H "Authorization: Bearer $KEY"',
    "-H 'Provider-Config-Key: files'",
    "-H 'Connection-Id: ada'",
  );

/** Returns the line by which an agent gets Latchkey's tools. Many clients have such a command; no client has a socket. */
const mcpLine = (data: string): string =>
  data.startsWith("http")
    ? `
Add its tools to an agent, with the command of your MCP client:

${command("<client> mcp add --transport http latchkey", `${data}/mcp`, '--header "Authorization: Bearer $KEY"')}
`
    : "";

/** Returns the shell word that gives a key: read from its file, so that it is not printed. */
export const shellWordOf = (key: { readonly file: string } | { readonly value: string }): string =>
  "file" in key ? `$(cat ${quoted(key.file)})` : quoted(key.value);
