import type { ClientHttp2Session } from "node:http2";
import { connect } from "node:net";
import { setTimeout } from "node:timers/promises";
import type { DescService } from "@bufbuild/protobuf";
import { type Client, createClient, type Interceptor, type Transport } from "@connectrpc/connect";
import { createGrpcTransport, type GrpcTransportOptions, Http2SessionManager } from "@connectrpc/connect-node";
import { UsageMistake } from "./terminal/usage-mistake.ts";

/** A client for the control plane of a running Latchkey. */
export interface Control {
  client<S extends DescService>(service: S): Client<S>;
  /** Closes the connections gracefully, so that the server does not log an error. */
  close(): Promise<void>;
}

interface ControlOptions {
  /** `http(s)://host:port`, `host:port` or `unix:/path`. */
  readonly address: string;
  /** The option or variable that holds the address, for messages. */
  readonly source: string;
  readonly key: string | undefined;
  /** Time limit of a call. Streams have none. */
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

/**
 * Metadata may be as deep as the control plane accepts, and a level of JSON takes up to three of protobuf; the
 * library's default limit of 100 is too low.
 */
const binaryOptions = { recursionLimit: 1_000 } as const;

/** Connects only on the first call. */
export function openControl({ address, source, key, timeoutMs, signal }: ControlOptions): Control {
  const { baseUrl, socketPath } = parseAddress(address, source);
  const connections = new Set<ClientHttp2Session>();
  const session = new Http2SessionManager(
    baseUrl,
    // Detects a silently lost sidecar within half a minute.
    { pingIntervalMs: 20_000, pingTimeoutMs: 10_000 },
    socketPath === undefined ? {} : { createConnection: () => connect(socketPath) },
  );
  const interceptors = key === undefined ? [] : [bearer(key)];
  const wire = createGrpcTransport({
    baseUrl,
    sessionManager: keeping(connections, session),
    interceptors,
    binaryOptions,
    // The sidecar is usually on the same machine: with compression, a backup takes twice as long.
    acceptCompression: [],
  });
  const transport: Transport = {
    unary: (method, given, timeout, ...rest) => wire.unary(method, given ?? signal, timeout ?? timeoutMs, ...rest),
    stream: (method, given, timeout, ...rest) => wire.stream(method, given ?? signal, timeout, ...rest),
  };
  return {
    client: (service) => createClient(service, transport),
    async close() {
      const left = new AbortController();
      const goodbyes = Promise.all([...connections].map(goodbye));
      await Promise.race([goodbyes, setTimeout(farewellMs, undefined, left).catch(() => {})]);
      left.abort();
      session.abort();
    },
  };
}

/** Time limit for closing: a cancelled stream may still be open, and a peer may never respond. */
const farewellMs = 500;

const goodbye = (connection: ClientHttp2Session) =>
  new Promise<void>((resolve) => {
    if (connection.destroyed) resolve();
    else connection.close(resolve);
  });

type SessionManager = NonNullable<GrpcTransportOptions["sessionManager"]>;

/**
 * Tracks the connections of the calls. A broken connection reports its error twice: to the call, and later by an event
 * that would end the process without a listener.
 */
const keeping = (connections: Set<ClientHttp2Session>, session: Http2SessionManager): SessionManager => ({
  authority: session.authority,
  notifyResponseByteRead: (stream) => session.notifyResponseByteRead(stream),
  async request(...call) {
    const stream = await session.request(...call);
    const connection = stream.session;
    // A client's stream always belongs to a client's session; Node's types do not show that.
    if (connection !== undefined && !connections.has(connection as ClientHttp2Session)) {
      connections.add((connection as ClientHttp2Session).on("error", ignore));
    }
    return stream;
  },
});

/** The call itself has already failed with the error. */
const ignore = () => {};

const bearer =
  (key: string): Interceptor =>
  (next) =>
  (request) => {
    request.header.set("authorization", `Bearer ${key}`);
    return next(request);
  };

function parseAddress(address: string, source: string): { readonly baseUrl: string; readonly socketPath?: string } {
  if (address.startsWith("unix:/")) return { baseUrl: "http://localhost", socketPath: address.slice("unix:".length) };
  const hasScheme = /^https?:\/\//.test(address);
  const url = hasScheme ? address : `http://${address}`;
  const parsed = URL.canParse(url) ? new URL(url) : undefined;
  const isComplete = hasScheme || /:\d+$/.test(address);
  if (!isComplete || parsed === undefined || address.includes("@") || parsed.pathname !== "/" || parsed.search !== "") {
    throw new UsageMistake(`${source} must be http://host:port, host:port or unix:/path`);
  }
  return { baseUrl: parsed.origin };
}
