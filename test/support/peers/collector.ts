import { once } from "node:events";
import http from "node:http";
import https from "node:https";
import type { AddressInfo } from "node:net";
import { onTestFinished } from "vitest";

/** A collector of spans that takes OTLP over HTTP in JSON, and reads it as strictly as its schema. */
export interface TestCollector {
  readonly port: number;
  /** Environment variables that make a sidecar send spans here with little delay. */
  readonly env: Readonly<Record<string, string>>;
  readonly posts: readonly Post[];
  readonly spans: () => readonly CollectedSpan[];
  /** Every received byte, request heads included. */
  readonly received: () => string;
}

export interface Post {
  readonly line: string;
  readonly headers: http.IncomingHttpHeaders;
  readonly body: string;
  readonly resource: Readonly<Record<string, string | number>>;
  readonly spans: readonly CollectedSpan[];
}

export interface CollectedSpan {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId: string | undefined;
  readonly flags: number;
  readonly name: string;
  readonly kind: "internal" | "server" | "client";
  readonly startNs: bigint;
  readonly endNs: bigint;
  readonly attributes: Readonly<Record<string, string | number>>;
  readonly isError: boolean;
}

/** How the collector answers; `never`, or a connection `reset`. */
type Answer =
  | { readonly status: number; readonly body?: string; readonly headers?: http.OutgoingHttpHeaders }
  | "never"
  | "reset";

interface Collecting {
  /** PEM. */
  readonly tls?: { readonly cert: Buffer; readonly key: Buffer };
}

export async function startCollector(
  answering: (count: number) => Answer = () => ({ status: 200 }),
  { tls }: Collecting = {},
): Promise<TestCollector> {
  const posts: Post[] = [];
  let received = "";
  let count = 0;
  const collect = async (request: http.IncomingMessage, response: http.ServerResponse) => {
    const parts: Buffer[] = [];
    for await (const part of request as AsyncIterable<Buffer>) parts.push(part);
    const body = Buffer.concat(parts).toString();
    received += `${request.method} ${request.url}\n${request.rawHeaders.join("\n")}\n${body}`;
    const answer = answering(count);
    count += 1;
    if (answer === "reset") request.socket.destroy();
    if (answer === "reset" || answer === "never") return;
    if (answer.status === 200) posts.push(readPost(request, body));
    response.writeHead(answer.status, answer.headers ?? {}).end(answer.body ?? "{}");
  };
  const server = tls === undefined ? http.createServer(collect) : https.createServer(tls, collect);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    server.close();
    server.closeAllConnections();
  });
  const { port } = server.address() as AddressInfo;
  return {
    port,
    env: {
      OTEL_EXPORTER_OTLP_ENDPOINT: `${tls === undefined ? "http" : "https"}://127.0.0.1:${port}`,
      OTEL_BSP_SCHEDULE_DELAY: "20",
    },
    posts,
    spans: () => posts.flatMap((post) => post.spans),
    received: () => received,
  };
}

const kinds = [undefined, "internal", "server", "client"] as const;

function readPost({ method, url, headers }: http.IncomingMessage, body: string): Post {
  const { resourceSpans, ...more } = JSON.parse(body);
  only(more);
  const [{ resource, scopeSpans, ...ofResource }] = resourceSpans;
  only(ofResource);
  const [{ scope, spans, ...ofScope }] = scopeSpans;
  only(ofScope);
  if (scope.name !== "latchkey" || scopeSpans.length !== 1 || resourceSpans.length !== 1) throw new Error(body);
  return {
    line: `${method} ${url}`,
    headers,
    body,
    resource: readAttributes(resource.attributes),
    spans: spans.map(readSpan),
  };
}

// biome-ignore lint/suspicious/noExplicitAny: it is looked at field by field.
function readSpan({ traceId, spanId, parentSpanId, flags, name, kind, ...rest }: any): CollectedSpan {
  const { startTimeUnixNano, endTimeUnixNano, attributes, status, ...more } = rest;
  only(more);
  if (!/^[0-9a-f]{32}$/.test(traceId) || !/^[0-9a-f]{16}$/.test(spanId)) throw new Error(`${traceId} ${spanId}`);
  const { code, ...ofStatus } = status;
  only(ofStatus);
  const kindName = kinds[kind];
  if (kindName === undefined || typeof name !== "string" || !Number.isInteger(flags)) throw new Error(name);
  return {
    traceId,
    spanId,
    parentSpanId,
    flags,
    name,
    kind: kindName,
    startNs: BigInt(startTimeUnixNano),
    endNs: BigInt(endTimeUnixNano),
    attributes: readAttributes(attributes),
    isError: code === 2,
  };
}

// biome-ignore lint/suspicious/noExplicitAny: as above.
function readAttributes(attributes: readonly any[]): Record<string, string | number> {
  const read: Record<string, string | number> = {};
  for (const { key, value, ...more } of attributes) {
    only(more);
    const { stringValue, intValue, ...ofValue } = value;
    only(ofValue);
    if (key in read) throw new Error(`the attribute ${key} is there twice`);
    read[key] = stringValue ?? Number(intValue);
  }
  return read;
}

function only(more: object): void {
  if (Object.keys(more).length > 0) throw new Error(`not in the schema: ${Object.keys(more)}`);
}
