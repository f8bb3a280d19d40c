/**
 * Callers of the replicas, in their own thread: in the provider's thread, thousands of them would delay its responses
 * for seconds, and make it close connections in use.
 */
import { Agent, request } from "node:http";
import { parentPort, workerData } from "node:worker_threads";
import { createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { ConnectionService } from "../../src/gen/latchkey/v1/connection_pb.ts";

export interface Calling {
  readonly data: readonly string[];
  readonly control: readonly string[];
  /** Callers with a connection of their own. */
  readonly sockets: number;
  /** gRPC callers that share a few connections. */
  readonly streams: number;
  readonly secretKey: string;
  readonly adminKey: string;
  readonly integration: string;
  readonly id: string;
}

const { data, control, sockets, streams, secretKey, adminKey, integration, id } = workerData as Calling;
const agent = new Agent({ keepAlive: true, maxSockets: Number.POSITIVE_INFINITY });

/** Each resolves once its request was sent. */
const sending: Promise<unknown>[] = [];

/** A call through the proxy. Its result is the status, and for latchkey's own errors the code. */
const proxied = (origin: string): Promise<string> =>
  new Promise((resolve) => {
    const headers = { authorization: `Bearer ${secretKey}`, "provider-config-key": integration, "connection-id": id };
    const asked = request(`${origin}/proxy/drive/v3/files?pageSize=1`, { agent, headers });
    asked.on("response", (response) => {
      const code = response.headers["latchkey-error"];
      response.on("data", () => {});
      response.on("end", () => resolve(code === undefined ? `${response.statusCode}` : `${code}`));
      response.on("error", () => resolve("cut"));
    });
    asked.on("error", () => resolve("cut"));
    sending.push(new Promise((onSent) => asked.once("finish", onSent).once("close", onSent)));
    asked.end();
  });

function overGrpc(baseUrl: string): () => Promise<string> {
  const transport = createGrpcTransport({
    baseUrl,
    interceptors: [
      (next) => (asked) => {
        asked.header.set("authorization", `Bearer ${adminKey}`);
        return next(asked);
      },
    ],
  });
  const client = createClient(ConnectionService, transport);
  return () =>
    client.getConnection({ ref: { environment: "dev", integration, id }, includeCredentials: true }).then(
      () => "200",
      (error: Error) => error.message.slice(0, 80),
    );
}

const callers = control.map(overGrpc);
const answers: Promise<string>[] = [];
for (let i = 0; i < Math.max(sockets, streams); i += 1) {
  const origin = data[i % data.length];
  if (i < sockets && origin !== undefined) answers.push(proxied(origin));
  if (i < streams) answers.push(callers[i % callers.length]?.() ?? Promise.resolve("nobody"));
}
void Promise.all(sending).then(() => parentPort?.postMessage("sent"));
const counted = new Map<string, number>();
for (const answer of await Promise.all(answers)) counted.set(answer, (counted.get(answer) ?? 0) + 1);
parentPort?.postMessage(counted);
process.exit();
