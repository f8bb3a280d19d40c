/** Lists the tools of an MCP server as a client of it would: first by the stateless protocol, then by the older one. */
import { traffic } from "../../state/clients.ts";

/** A tool as its server describes it. All texts are the server's. */
export interface ListedTool {
  readonly name: string;
  readonly title: string;
  readonly description: string;
  readonly isReadOnly: boolean;
  readonly isDestructive: boolean;
}

interface ToolsEndpoint {
  readonly environment: string;
  readonly integration: string;
  readonly connection: string;
  /** Path and query at the server. */
  readonly path: string;
}

interface RpcAnswer {
  readonly status: number;
  readonly sessionId: string;
  readonly result: Readonly<Record<string, unknown>> | undefined;
  /** What the server says about a failure. */
  readonly error: string;
}

/** The server, or Latchkey, answered with a failure. */
export class ToolsUnread extends Error {}

const stateless = "2026-07-28";
const stateful = "2025-11-25";
const clientInfo = { name: "latchkey-dashboard", version: "1" };
const mostPages = 20;
const encoder = new TextEncoder();
const decoder = new TextDecoder();

export async function readTools(endpoint: ToolsEndpoint): Promise<readonly ListedTool[]> {
  const meta = {
    "io.modelcontextprotocol/protocolVersion": stateless,
    "io.modelcontextprotocol/clientInfo": clientInfo,
    "io.modelcontextprotocol/clientCapabilities": {},
  };
  const headers = { "mcp-protocol-version": stateless, "mcp-method": "tools/list" };
  const first = await send(endpoint, { id: 1, method: "tools/list", params: { _meta: meta } }, headers);
  if (first.result !== undefined) return restOf(endpoint, first, { headers, params: { _meta: meta } });
  return readStateful(endpoint);
}

async function readStateful(endpoint: ToolsEndpoint): Promise<readonly ListedTool[]> {
  const params = { protocolVersion: stateful, capabilities: {}, clientInfo };
  const begun = await send(endpoint, { id: 1, method: "initialize", params }, {});
  if (begun.result === undefined) throw new ToolsUnread(failureText(begun));
  const { sessionId } = begun;
  const version = begun.result["protocolVersion"];
  const headers = {
    "mcp-protocol-version": typeof version === "string" ? version : stateful,
    ...(sessionId !== "" && { "mcp-session-id": sessionId }),
  };
  await send(endpoint, { method: "notifications/initialized" }, headers);
  const first = await send(endpoint, { id: 2, method: "tools/list", params: {} }, headers);
  if (first.result === undefined) throw new ToolsUnread(failureText(first));
  const tools = await restOf(endpoint, first, { headers, params: {} });
  if (sessionId !== "") await send(endpoint, undefined, headers);
  return tools;
}

const failureText = ({ status, error }: RpcAnswer): string =>
  error === "" ? `The server answered ${status} without a list of tools` : error;

interface ToolPageRequest {
  readonly headers: Readonly<Record<string, string>>;
  readonly params: object;
}

/** Reads the further pages of a list. */
async function restOf(
  endpoint: ToolsEndpoint,
  first: RpcAnswer,
  { headers, params }: ToolPageRequest,
): Promise<ListedTool[]> {
  const tools = toolsIn(first);
  let cursor = first.result?.["nextCursor"];
  for (let page = 1; typeof cursor === "string" && page < mostPages; page += 1) {
    const message = { id: page + 2, method: "tools/list", params: { ...params, cursor } };
    const next = await send(endpoint, message, headers);
    if (next.result === undefined) throw new ToolsUnread(failureText(next));
    tools.push(...toolsIn(next));
    cursor = next.result["nextCursor"];
  }
  return tools;
}

/** Sends a message, or ends a session if there is none. */
async function send(
  { environment, integration, connection, path }: ToolsEndpoint,
  message: object | undefined,
  headers: Readonly<Record<string, string>>,
): Promise<RpcAnswer> {
  const all = { accept: "application/json, text/event-stream", "content-type": "application/json", ...headers };
  const answer = await traffic.sendRequest({
    connection: { environment, integration, id: connection },
    method: message === undefined ? "DELETE" : "POST",
    path,
    headers: Object.entries(all).map(([name, value]) => ({ name, value: encoder.encode(value) })),
    body: message === undefined ? new Uint8Array() : encoder.encode(JSON.stringify({ jsonrpc: "2.0", ...message })),
  });
  if (answer.problem !== undefined) throw new ToolsUnread(answer.problem.message);
  const headerOf = (name: string) => {
    const found = answer.headers.find((one) => one.name.toLowerCase() === name);
    return found === undefined ? "" : decoder.decode(found.value);
  };
  const text = decoder.decode(answer.body);
  const { result, error } = responseIn(text, headerOf("content-type").startsWith("text/event-stream"));
  return { status: answer.status, sessionId: headerOf("mcp-session-id"), result, error };
}

/** Returns the response of a body: one JSON object, or the last one of an event stream. */
function responseIn(text: string, isStream: boolean): Pick<RpcAnswer, "result" | "error"> {
  const messages = isStream ? dataOf(text) : [text];
  for (const message of messages.toReversed()) {
    const { result, error } = objectIn(message);
    if (isObject(result)) return { result, error: "" };
    if (isObject(error)) return { result: undefined, error: textIn(error, "message") };
  }
  return { result: undefined, error: "" };
}

const dataOf = (text: string): string[] =>
  text.split(/\r?\n\r?\n/).map((event) =>
    event
      .split(/\r?\n/)
      .filter((line) => line.startsWith("data:"))
      .map((line) => line.slice("data:".length).trimStart())
      .join("\n"),
  );

type ParsedFields = Readonly<Record<string, unknown>>;

const isObject = (value: unknown): value is ParsedFields => typeof value === "object" && value !== null;

function objectIn(text: string): ParsedFields {
  try {
    const parsed: unknown = JSON.parse(text);
    return isObject(parsed) ? parsed : {};
  } catch {
    /* Not JSON, such as the page of a gateway. */
    return {};
  }
}

const textIn = (fields: ParsedFields, name: string): string => {
  const value = fields[name];
  return typeof value === "string" ? value : "";
};

function toolsIn({ result }: RpcAnswer): ListedTool[] {
  const listed = result?.["tools"];
  return (Array.isArray(listed) ? listed : []).filter(isObject).map((tool) => {
    const hints = tool["annotations"];
    const has = (name: string) => isObject(hints) && hints[name] === true;
    return {
      name: textIn(tool, "name"),
      title: textIn(tool, "title"),
      description: textIn(tool, "description"),
      isReadOnly: has("readOnlyHint"),
      isDestructive: has("destructiveHint"),
    };
  });
}
