import http2, { type ClientHttp2Session } from "node:http2";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { createClient, type Interceptor } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { onTestFinished } from "vitest";
import { ConnectionService } from "../../src/gen/latchkey/v1/connection_pb.ts";
import { foreignClient } from "../cases/control-plane/foreign.ts";
import { adminKey } from "../support/sidecar/harness.ts";
import type { FrameRecorder } from "./frame-recorder.ts";
import { proxyHeaders } from "./load.ts";

/** Outcomes of requests over HTTP/2 and gRPC that were sent without a pause. */
export interface Http2Load {
  readonly answered: Readonly<Record<string, number>>;
  /** Requests that the client's own HTTP/2 library took back before it sent any frame of them. */
  readonly takenBack: Readonly<Record<string, number>>;
  /** Every other outcome. */
  readonly failed: readonly string[];
  stop(): Promise<void>;
}

interface Http2LoadOptions {
  readonly data: string;
  readonly control: string;
  /** The number of callers of each kind. */
  readonly callers: number;
  readonly recorder: FrameRecorder;
}

interface StreamFailure {
  readonly message: string;
  /** No HEADERS of the stream were sent. */
  readonly isUnsent: boolean;
}

/** Node's own client, used as documented: one session, and a new one as soon as the old one was told to end. */
function nodeClient(address: string, recorder: FrameRecorder) {
  let session: ClientHttp2Session | undefined;
  function current(): ClientHttp2Session {
    if (session !== undefined && !session.closed && !session.destroyed) return session;
    const made = http2.connect(address).setMaxListeners(0);
    const forget = () => {
      if (session === made) session = undefined;
    };
    made.on("goaway", forget).on("close", forget).on("error", forget);
    session = made;
    return made;
  }
  onTestFinished(() => session?.destroy());

  return (path: string, body?: string): Promise<StreamFailure | undefined> =>
    new Promise((resolve) => {
      const over = current();
      const method = body === undefined ? "GET" : "POST";
      const stream = over.request({ ...proxyHeaders, ":method": method, ":path": path });
      let port = 0;
      let status = 0;
      let problem: Error | undefined;
      const learn = () => {
        port = (over.socket.address() as AddressInfo).port;
      };
      if (over.connecting) over.once("connect", learn);
      else learn();
      stream.on("response", (headers) => {
        status = headers[":status"] ?? 0;
      });
      stream.on("error", (error) => {
        problem = error;
      });
      stream.on("close", () => {
        if (problem === undefined && status === 200) return resolve(undefined);
        const { id } = stream;
        const isRefused = stream.rstCode === http2.constants.NGHTTP2_REFUSED_STREAM;
        const isUnsent = isRefused && id !== undefined && !recorder.sentBy(port).has(id);
        resolve({ message: `${status} ${problem?.message}`, isUnsent });
      });
      stream.resume().end(body);
    });
}

export function startHttp2Load({ data, control, callers, recorder }: Http2LoadOptions): Http2Load {
  const withKey: Interceptor = (next) => (request) => {
    request.header.set("authorization", `Bearer ${adminKey}`);
    return next(request);
  };
  const ref = { environment: "dev", integration: "here", id: "ada" };
  const connect = createClient(ConnectionService, createGrpcTransport({ baseUrl: control, interceptors: [withKey] }));
  const foreign = foreignClient(control);
  const ask = nodeClient(data, recorder);
  const answered: Record<string, number> = {};
  const takenBack: Record<string, number> = {};
  const failed: string[] = [];
  const count = (counts: Record<string, number>, kind: string) => {
    counts[kind] = (counts[kind] ?? 0) + 1;
  };
  async function overHttp2(kind: string, path: string, body?: string): Promise<void> {
    const failure = await ask(path, body);
    if (failure === undefined) return count(answered, kind);
    if (!failure.isUnsent) return void failed.push(`${kind}: ${failure.message}`);
    count(takenBack, kind);
    // Safe to repeat (RFC 9113, section 8.7): the server has seen nothing of the request.
    const again = await ask(path, body);
    if (again === undefined) count(answered, kind);
    else failed.push(`${kind}, repeated: ${again.message}`);
  }
  async function overGrpc(kind: string, call: () => Promise<unknown>): Promise<void> {
    try {
      await call();
      count(answered, kind);
    } catch (error) {
      // The recorder tells whether it was the server that refused.
      if (String(error).includes("REFUSED_STREAM")) count(takenBack, kind);
      else failed.push(`${kind}: ${error}`);
    }
  }
  const kinds: readonly (() => Promise<void>)[] = [
    () => overHttp2("read", "/connections/ada?provider_config_key=here"),
    () => overHttp2("proxy", "/proxy/soon"),
    () => overHttp2("upload", "/proxy/soon", "x".repeat(2_000)),
    () => overGrpc("connect-node", () => connect.getConnection({ ref })),
    () => overGrpc("grpc-js", () => foreign.unary("ConnectionService/GetConnection", { ref })),
  ];
  let isOver = false;
  let n = 0;
  async function askOn(once: () => Promise<void>): Promise<void> {
    while (!isOver) {
      await once();
      n += 1;
      // Some send at once, some a little later, so that they never all wait at the same moment.
      if (n % 3 === 0) await sleep(n % 5);
    }
  }
  const all = kinds.flatMap((once) => Array.from({ length: callers }, () => askOn(once)));
  return {
    answered,
    takenBack,
    failed,
    async stop() {
      isOver = true;
      await Promise.all(all);
    },
  };
}
