// Uses the MCP endpoint as an application does, by the official client of one era: lists the tools, calls one whose
// account is missing, shows the link, and gets the result once the account is connected. Writes a line of JSON for each step.
import { createInterface } from "node:readline";
import { Client as ModernClient, StreamableHTTPClientTransport as ModernTransport } from "@modelcontextprotocol/client";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { ResourceUpdatedNotificationSchema, UrlElicitationRequiredError } from "@modelcontextprotocol/sdk/types.js";

const { ADDRESS, KEY, ERA, TOOL, ARGUMENTS, WAITS, FOLLOWS } = process.env;
const requestInit = { headers: { authorization: `Bearer ${KEY}` } };
const info = { name: "tester", version: "1" };
const capabilities = { elicitation: { url: {} } };
const call = { name: TOOL, arguments: JSON.parse(ARGUMENTS) };
const tell = (step) => console.log(JSON.stringify(step));
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();

async function older() {
  const client = new Client(info, { capabilities });
  await client.connect(new StreamableHTTPClientTransport(new URL(ADDRESS), { requestInit }));
  tell({ tools: (await client.listTools()).tools.map(({ name }) => name) });
  try {
    tell({ result: await client.callTool(call) });
  } catch (error) {
    if (!(error instanceof UrlElicitationRequiredError)) throw error;
    tell({ link: error.elicitations[0].url });
    // The user says that the account is connected.
    await lines.next();
    tell({ result: await client.callTool(call) });
  }
  if (FOLLOWS !== undefined) await followed(client);
  return client;
}

/** Subscribes to a resource, and waits until it has changed. */
async function followed(client) {
  const { promise, resolve } = Promise.withResolvers();
  client.setNotificationHandler(ResourceUpdatedNotificationSchema, ({ params }) => resolve(params.uri));
  await client.subscribeResource({ uri: FOLLOWS });
  tell({ link: FOLLOWS });
  await lines.next();
  tell({ updated: await promise });
}

async function modern() {
  const client = new ModernClient(info, { capabilities, versionNegotiation: { mode: { pin: "2026-07-28" } } });
  client.setRequestHandler("elicitation/create", async ({ params }) => {
    tell({ link: params.url });
    // Says that the user has opened the link, not that they are done: the server waits for an account.
    if (WAITS === "1") await lines.next();
    return { action: "accept" };
  });
  await client.connect(new ModernTransport(new URL(ADDRESS), { requestInit }));
  tell({ tools: (await client.listTools()).tools.map(({ name }) => name) });
  tell({ result: await client.callTool(call) });
  return client;
}

const client = await (ERA === "modern" ? modern() : older());
await client.close();
process.exit(0);
