// Lists and calls tools of an MCP server, by the official clients of both eras.
import { Client as ModernClient, StreamableHTTPClientTransport as ModernTransport } from "@modelcontextprotocol/client";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const { ADDRESS, KEY, CONNECTION } = process.env;
const requestInit = { headers: { authorization: `Bearer ${KEY}`, "connection-id": CONNECTION } };

async function used(client, transport) {
  await client.connect(transport);
  const { tools } = await client.listTools();
  const called = await client.callTool({ name: "read_page", arguments: { id: "p1", text: "Tee & ü" } });
  await client.close();
  return { tools: tools.map(({ name }) => name), text: called.content[0].text };
}

const info = { name: "test", version: "1" };
const older = await used(new Client(info), new StreamableHTTPClientTransport(new URL(ADDRESS), { requestInit }));
const modernOptions = { versionNegotiation: { mode: { pin: "2026-07-28" } } };
const modern = await used(
  new ModernClient(info, modernOptions),
  new ModernTransport(new URL(ADDRESS), { requestInit }),
);
console.log(JSON.stringify({ older, modern }));
