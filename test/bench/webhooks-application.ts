/** Applications that forwards go to, in a process of their own: `/fast`, `/gone`, `/dead`. Says what it got when asked. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { createInterface } from "node:readline";

const got: Record<string, number> = { "/fast": 0, "/gone": 0, "/dead": 0 };
/** When the last one came. */
let lastAt = 0;

const server = createServer((request, response) => {
  const { url = "" } = request;
  got[url] = (got[url] ?? 0) + 1;
  lastAt = performance.timeOrigin + performance.now();
  request.resume();
  if (url === "/dead") return;
  response.writeHead(url === "/gone" ? 410 : 200, { "content-length": "2" }).end("{}");
});
server.listen(0, "127.0.0.1", () => {
  process.stdout.write(`${(server.address() as AddressInfo).port}\n`);
});
const reader = createInterface({ input: process.stdin });
reader.on("line", () => process.stdout.write(`${JSON.stringify({ got, lastAt })}\n`));
reader.on("close", () => process.exit());
