import { type Connecting, connecting, departure } from "../../support/sidecar/connecting.ts";
import { temporaryFolder } from "../../support/sidecar/harness.ts";
import { type Scripts, writeScripts } from "../syncs/scripting.ts";

/** The integration of the tests: OAuth 2.0 against the sandbox. */
export const integration = "sandbox-files";

export const count = `
  import { createAction } from "latchkey/scripts";
  import * as z from "zod";
  export default createAction({
    description: "Counts the files whose name contains a text.",
    input: z.object({ text: z.string() }),
    output: z.object({ count: z.number() }),
    exec: async (nango: any, { text }: any) => {
      if (text === "") throw new nango.ActionError({ message: "text must not be empty" });
      const { data } = await nango.get({ endpoint: "/drive/v3/files", params: { pageSize: 100 } });
      return { count: data.files.filter((file: any) => file.name.includes(text)).length };
    },
  });`;

export const documents = `
  import { createSync } from "latchkey/scripts";
  import * as z from "zod";
  export default createSync({
    description: "All files of the user.",
    frequency: "1d", autoStart: false,
    models: { Document: z.object({ id: z.string(), name: z.string() }) },
    exec: async (nango: any) => {
      await nango.batchSave([{ id: "a", name: "Anna" }, { id: "b", name: "Bob" }, { id: "c", name: "Cleo" }], "Document");
    },
  });`;

/** Asks for a word, and returns its length. */
export const asking = `
  import { createAction } from "latchkey/scripts";
  export default createAction({ description: "Asks.", exec: async (nango: any) => {
    const { it } = await nango.askClient({ it: { kind: "form", message: "Word?",
      schema: { type: "object", properties: { word: { type: "string" } } } } });
    return it.content.word.length;
  } });`;

export const scripts: Scripts = { "actions/count.ts": count, "syncs/documents.ts": documents };

type ServedOptions = NonNullable<Parameters<typeof connecting>[0]>;

/** A sidecar with tools, and the sandbox behind them. */
export async function served(
  options: ServedOptions & {
    readonly scripts?: Scripts;
    /** Scripts of further integrations. */
    readonly others?: Readonly<Record<string, Scripts>>;
  } = {},
): Promise<Connecting> {
  const folder = await temporaryFolder();
  for (const [key, others] of Object.entries(options.others ?? {})) writeScripts(folder, others, key);
  writeScripts(folder, options.scripts ?? scripts, integration);
  const env = { ...options.sidecar?.env, LATCHKEY_SCRIPTS: folder };
  return connecting({ ...options, sidecar: { ...options.sidecar, env } });
}

/** Creates connections whose credentials are the key of the sandbox. */
export async function connectByKey({ sidecar }: Connecting, key: string, ids: readonly string[]): Promise<void> {
  for (const id of ids) {
    const credentials = { type: "API_KEY", apiKey: "sandbox-api-key" };
    const body = { provider_config_key: key, connection_id: id, credentials };
    const { status } = await sidecar.rest("POST", "/connections", { body });
    if (status !== 201) throw new Error(`${id} was not connected: ${status}`);
  }
}

/** Follows a connect link as a user does, to the end. */
export async function follow(all: Connecting, link: string): Promise<void> {
  const token = new URL(link).searchParams.get("session_token") ?? "";
  const page = await all.browser().go(departure(all, token));
  if (!page.text.includes("is connected")) throw new Error(`not connected: ${page.text}`);
}

export interface McpAnswer {
  readonly status: number;
  readonly headers: Headers;
  // biome-ignore lint/suspicious/noExplicitAny: a test says itself what it expects of an answer.
  readonly body: any;
}

/** The error of a tool's result. */
// biome-ignore lint/suspicious/noExplicitAny: a test says itself what it expects of a result.
export const errorIn = (result: any): any => result?._meta?.["latchkey/error"];

interface MessageOptions {
  readonly key?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly id?: number | string;
}

export const modern = "2026-07-28";
export const urlElicitation = { elicitation: { url: {} } };

/** Sends a request as a client of 2026-07-28 does. */
export const modernCall = (
  { sidecar }: Connecting,
  method: string,
  params: Record<string, unknown> = {},
  {
    capabilities = {},
    headers = {},
    meta = {},
    ...more
  }: MessageOptions & { readonly capabilities?: object; readonly meta?: object } = {},
): Promise<McpAnswer> => {
  const _meta = {
    "io.modelcontextprotocol/protocolVersion": modern,
    "io.modelcontextprotocol/clientInfo": { name: "tester", version: "1.0" },
    "io.modelcontextprotocol/clientCapabilities": capabilities,
    ...meta,
  };
  return sidecar.rest("POST", "/mcp", {
    body: { jsonrpc: "2.0", id: more.id ?? 1, method, params: { ...params, _meta } },
    headers: {
      accept: "application/json, text/event-stream",
      "mcp-protocol-version": modern,
      "mcp-method": method,
      ...(typeof params["name"] === "string" && { "mcp-name": params["name"] }),
      ...headers,
    },
    ...(more.key !== undefined && { key: more.key }),
  });
};

/** Sends a request as a client of 2025-11-25 does. */
export const legacyCall = (
  { sidecar }: Connecting,
  method: string,
  params: object = {},
  { headers = {}, ...more }: MessageOptions = {},
): Promise<McpAnswer> =>
  sidecar.rest("POST", "/mcp", {
    body: { jsonrpc: "2.0", id: more.id ?? 1, method, params },
    headers: { accept: "application/json, text/event-stream", "mcp-protocol-version": "2025-11-25", ...headers },
    ...(more.key !== undefined && { key: more.key }),
  });

/** Calls a tool, and returns its result. */
export const callTool = async (
  all: Connecting,
  name: string,
  given: object = {},
  options: Parameters<typeof modernCall>[3] = {},
) => (await modernCall(all, "tools/call", { name, arguments: given }, options)).body;
