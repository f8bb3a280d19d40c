import { type ChildProcess, spawn } from "node:child_process";
import { Agent, createServer, type IncomingMessage, request, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { loadavg } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import { recordFigure } from "../score/figure.ts";
import { deployed, secretKey, startBenchSidecar, withFolder } from "../sidecar-process.ts";

interface McpBenchOptions {
  /** Event streams that are open at once. */
  readonly count: number;
  readonly rounds: number;
}

/** A proxy that only forwards: the least that a hop of `node:http` costs. Argument: the port of the server. */
const bareProgram = `
  const http = require("node:http");
  const agent = new http.Agent({ keepAlive: true });
  http.createServer((asked, answer) => {
    const { method, url, headers } = asked;
    const sent = http.request({ port: Number(process.argv[1]), method, path: url, headers, agent }, (got) => {
      answer.writeHead(got.statusCode, got.headers);
      got.pipe(answer);
    });
    asked.pipe(sent);
    answer.on("close", () => sent.destroy());
  }).listen(0, "127.0.0.1", function () { console.log(this.address().port); });
`;

/** An MCP server without authorization: tool calls are answered as one event, GET opens a stream. */
function startServer(): Promise<Server> {
  const server = createServer((asked, answer) => {
    if (asked.method === "GET" && asked.url === "/mcp") {
      answer.writeHead(200, { "content-type": "text/event-stream" });
      answer.write(": open\n\n");
      return;
    }
    if (asked.url !== "/mcp") {
      answer.writeHead(404).end();
      return;
    }
    asked.resume();
    asked.on("end", () => {
      answer.writeHead(200, { "content-type": "text/event-stream" });
      answer.end(`event: message\ndata: {"jsonrpc":"2.0","id":1,"result":{"content":"${"x".repeat(400)}"}}\n\n`);
    });
  });
  return new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(server)));
}

const portOf = (server: Server) => (server.address() as AddressInfo).port;

function startBare(port: number): Promise<{ readonly child: ChildProcess; readonly port: number }> {
  const child = spawn(process.execPath, ["-e", bareProgram, String(port)], { stdio: ["ignore", "pipe", "inherit"] });
  return new Promise((resolve) => child.stdout?.once("data", (text) => resolve({ child, port: Number(text) })));
}

const call = JSON.stringify({
  jsonrpc: "2.0",
  id: 1,
  method: "tools/call",
  params: {
    name: "read_page",
    arguments: { id: "p1", text: "x".repeat(200) },
    _meta: { "io.modelcontextprotocol/protocolVersion": "2026-07-28" },
  },
});
const headers = {
  authorization: `Bearer ${secretKey}`,
  "connection-id": "all",
  "content-type": "application/json",
  "content-length": String(Buffer.byteLength(call)),
  "mcp-protocol-version": "2026-07-28",
  "mcp-method": "tools/call",
  "mcp-name": "read_page",
};

interface Way {
  readonly name: string;
  readonly port: number;
  readonly path: string;
  readonly times: number[];
}

function callOnce({ port, path }: Way, agent: Agent): Promise<number> {
  const since = performance.now();
  return new Promise((resolve, reject) => {
    const sent = request({ port, path, method: "POST", headers, agent }, (answer) => {
      if (answer.statusCode !== 200) reject(new Error(`a call was answered ${answer.statusCode}`));
      answer.resume();
      answer.on("end", () => resolve(performance.now() - since));
    });
    sent.on("error", reject);
    sent.end(call);
  });
}

const median = (all: readonly number[]) => all.toSorted((a, b) => a - b)[all.length >> 1] ?? 0;
const say = (text: string) => process.stdout.write(`${text}\n`);

/** Calls one after another, in turns of 100, directly, through a bare proxy and through Latchkey. */
async function overhead(ways: readonly Way[], rounds: number): Promise<void> {
  const agents = new Map(ways.map((way) => [way, new Agent({ keepAlive: true, maxSockets: 1 })]));
  const added: number[] = [];
  const byRound = new Map<string, number[]>(ways.map(({ name }) => [name, []]));
  for (let round = 0; round <= rounds; round += 1) {
    const medians = new Map<string, number>();
    for (const way of ways) {
      const times: number[] = [];
      for (let i = 0; i < 200; i += 1) times.push(await callOnce(way, agents.get(way) ?? new Agent()));
      medians.set(way.name, median(times));
      // The first round warms up.
      if (round > 0) way.times.push(...times);
    }
    if (round > 0) for (const [name, ms] of medians) byRound.get(name)?.push(ms);
    if (round > 0) added.push((medians.get("latchkey") ?? 0) - (medians.get("bare proxy") ?? 0));
  }
  for (const { name, times } of ways) say(`${name}: p50 ${median(times).toFixed(3)} ms over ${times.length} calls`);
  say(`latchkey over the bare proxy: p50 ${median(added).toFixed(3)} ms a call (median of ${rounds} rounds)`);
  const [own = [], bare = []] = [byRound.get("latchkey"), byRound.get("bare proxy")];
  recordFigure({
    ...{ name: "MCP, a tool call, p50", unit: "ms", better: "lower", own },
    peers: { "a bare proxy of node:http": bare },
  });
  for (const agent of agents.values()) agent.destroy();
}

function openStream(port: number): Promise<IncomingMessage> {
  const { "content-length": _, ...open } = headers;
  return new Promise((resolve, reject) => {
    const sent = request({ port, path: "/mcp/tools", headers: open, agent: false }, (answer) => {
      answer.once("data", () => resolve(answer));
    });
    sent.on("error", reject);
    sent.end();
  });
}

export async function mcp({ count, rounds }: McpBenchOptions): Promise<void> {
  await withFolder(async (folder) => {
    const server = await startServer();
    const bare = await startBare(portOf(server));
    const sidecar = await startBenchSidecar({
      folder,
      env: { LATCHKEY_ALLOW_PRIVATE: `http://127.0.0.1:${portOf(server)}`, ...deployed },
    });
    const made = async (path: string, body: object) => {
      const init = { method: "POST", headers: { ...headers, "content-length": "" }, body: JSON.stringify(body) };
      const { "content-length": _, ...fields } = init.headers;
      const answer = await fetch(`${sidecar.data}${path}`, { ...init, headers: fields });
      if (!answer.ok) throw new Error(await answer.text());
    };
    try {
      await made("/integrations", { unique_key: "tools", mcp_url: `http://127.0.0.1:${portOf(server)}/mcp` });
      const credentials = { type: "NONE" };
      await made("/connections", { connection_id: "all", provider_config_key: "tools", credentials });
      const data = Number(new URL(sidecar.data).port);
      say(`load average ${loadavg()[0]?.toFixed(1)}`);
      const ways = [
        { name: "direct", port: portOf(server), path: "/mcp", times: [] },
        { name: "bare proxy", port: bare.port, path: "/mcp", times: [] },
        { name: "latchkey", port: data, path: "/mcp/tools", times: [] },
      ];
      await overhead(ways, rounds || 9);
      const streams = count || 1_000;
      await sleep(2_000);
      const before = sidecar.ownMiB();
      const open: IncomingMessage[] = [];
      for (let i = 0; i < streams; i += 1) open.push(await openStream(data));
      await sleep(5_000);
      const each = ((sidecar.ownMiB() - before) * 1024) / streams;
      say(`${open.length} open event streams: ${each.toFixed(1)} KiB each`);
      for (const one of open) one.destroy();
    } finally {
      bare.child.kill();
      await sidecar.stop();
      server.closeAllConnections();
      server.close();
    }
  });
}
