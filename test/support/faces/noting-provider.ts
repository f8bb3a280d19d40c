import { once } from "node:events";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { onTestFinished } from "vitest";

/** A provider that notes what each numbered request said. */
export interface NotingProvider {
  readonly port: number;
  /** Returns what a request said when it arrived, and forgets it; undefined: it has not arrived. */
  take(id: string): string | undefined;
}

/** The field that numbers a request. */
export const idField = "x-fuzz-id";

/** Fields that say how a request came, or that clients set, and not what it asks for. */
const notNoted = new Set([
  idField,
  "via",
  "content-length",
  "transfer-encoding",
  "connection",
  "te",
  // Set by clients.
  "accept",
  "user-agent",
  "accept-encoding",
  "upgrade",
  "sec-websocket-version",
  "sec-websocket-key",
  "sec-websocket-extensions",
]);

export async function startNotingProvider(): Promise<NotingProvider> {
  const noted = new Map<string, string>();
  const server = createServer((socket) => {
    let text = "";
    socket.setNoDelay().setEncoding("latin1");
    socket.on("error", () => {});
    socket.on("data", (piece: string) => {
      text += piece;
      for (let next = readRequest(text); next !== undefined; next = readRequest(text)) {
        text = text.slice(next.end);
        answer(socket, next.line);
        const id = next.fields.find(([name]) => name === idField)?.[1] ?? "";
        noted.set(id, noteOf(next));
      }
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => void server.close());
  return {
    port: (server.address() as AddressInfo).port,
    take(id) {
      const found = noted.get(id);
      noted.delete(id);
      return found;
    },
  };
}

function answer(socket: Socket, line: string): void {
  socket.write(
    line.startsWith("HEAD") ? "HTTP/1.1 204 No Content\r\n\r\n" : "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
  );
}

interface NotedRequest {
  readonly line: string;
  readonly fields: readonly (readonly [string, string])[];
  readonly body: string;
  readonly end: number;
}

function noteOf({ line, fields, body }: NotedRequest): string {
  const kept = fields.filter(([name]) => !notNoted.has(name)).map(([name, value]) => `${name}: ${value}`);
  return [line, ...kept.sort(), "", body].join("\n");
}

function readRequest(text: string): NotedRequest | undefined {
  const headEnd = text.indexOf("\r\n\r\n");
  if (headEnd === -1) return undefined;
  const [line = "", ...lines] = text.slice(0, headEnd).split("\r\n");
  const fields = lines.map((one) => {
    const colon = one.indexOf(":");
    return [one.slice(0, colon).toLowerCase(), one.slice(colon + 1).trim()] as const;
  });
  const value = (name: string) => fields.find(([one]) => one === name)?.[1];
  const from = headEnd + 4;
  if (value("transfer-encoding") === undefined) {
    const end = from + Number(value("content-length") ?? 0);
    return text.length < end ? undefined : { line, fields, body: text.slice(from, end), end };
  }
  let body = "";
  for (let at = from; ; ) {
    const lineEnd = text.indexOf("\r\n", at);
    if (lineEnd === -1) return undefined;
    const size = Number.parseInt(text.slice(at, lineEnd), 16);
    const next = lineEnd + 2 + size + 2;
    if (text.length < next) return undefined;
    if (size === 0) return { line, fields, body, end: next };
    body += text.slice(lineEnd + 2, lineEnd + 2 + size);
    at = next;
  }
}
