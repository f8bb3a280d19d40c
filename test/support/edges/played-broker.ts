import { createHash } from "node:crypto";
import { createServer, type Http2Server, type ServerHttp2Session } from "node:http2";
import type { MessageInitShape } from "@bufbuild/protobuf";
import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import type { HandlerContext } from "@connectrpc/connect";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import { onTestFinished } from "vitest";
import { Scope } from "../../../src/gen/latchkey/v1/access_pb.ts";
import { type Connection, ConnectionSchema } from "../../../src/gen/latchkey/v1/connection_pb.ts";
import { type Credentials, CredentialsSchema } from "../../../src/gen/latchkey/v1/credentials_pb.ts";
import {
  EdgeConnectionSchema,
  EdgeIntegrationSchema,
  EdgeKeySchema,
  EdgeLiveConnectionSchema,
  EdgeProviderSchema,
  EdgeService,
  type FollowRequest,
  type FollowResponse,
  FollowResponseSchema,
} from "../../../src/gen/latchkey/v1/edge_pb.ts";
import { KeySchema } from "../../../src/gen/latchkey/v1/environment_pb.ts";
import { IntegrationSchema } from "../../../src/gen/latchkey/v1/integration_pb.ts";
import { ProviderSchema } from "../../../src/gen/latchkey/v1/provider_pb.ts";

type Message = FollowRequest["message"];
type Answer = NonNullable<MessageInitShape<typeof FollowResponseSchema>["message"]>;

/** What a test decides about a connection. */
export interface PlayedConnection {
  token: string;
  version: string;
  validUntilMs?: number;
  fault?: { readonly code: string; readonly message: string; readonly detailsJson?: string };
}

/** A broker that answers as a test wants, over real HTTP/2: a real one does not drop messages or stop on request. */
export interface PlayedBroker {
  readonly url: string;
  /** Connections by ID, of the integration `keyed`. */
  readonly connections: Map<string, PlayedConnection>;
  /** Secrets of the keys that are known, with their IDs. */
  readonly keys: Map<string, string>;
  /** Everything that edges sent, of all streams. */
  readonly received: Message[];
  /** The headers of all streams by which edges said who they are. */
  readonly authorizations: (string | null)[];
  /** Open streams. */
  count(): number;
  push(answer: Answer): void;
  pushConnection(id: string): void;
  pushKey(secret: string): void;
  /** Called when a connection was refused by its provider: may replace it. */
  onRefused: (id: string) => void;
  /** Says nothing more, although its connections stay open. */
  isFrozen: boolean;
  /** The time that it tells in welcomes and heartbeats; undefined: none. */
  clock: (() => number) | undefined;
  /** Ends each stream right after the welcome. */
  isFailing: boolean;
  /** Ends all connections at once, and accepts no more until `start`. */
  kill(): Promise<void>;
  start(): Promise<void>;
}

export async function startPlayedBroker(providerUrl: string, port = 0): Promise<PlayedBroker> {
  const streams = new Set<(answer: Answer) => void>();
  const sessions = new Set<ServerHttp2Session>();
  let server: Http2Server | undefined;
  let at = port;
  const bytes = (text: string) => Buffer.from(text);

  const connectionMessage = (id: string, requestId: bigint): Answer => {
    const found = broker.connections.get(id);
    const ref = { environment: "dev", integration: "keyed", id };
    const fault =
      found?.fault ?? (found === undefined ? { code: "unknown_connection", message: `no ${id}` } : undefined);
    if (found === undefined || fault !== undefined) {
      return {
        case: "connection",
        value: create(EdgeConnectionSchema, { requestId, ref, state: { case: "fault", value: fault ?? {} } }),
      };
    }
    const connection: Connection = create(ConnectionSchema, { ref, provider: "played" });
    const credentials: Credentials = create(CredentialsSchema, {
      kind: { case: "apiKey", value: { apiKey: found.token } },
    });
    const value = create(EdgeLiveConnectionSchema, {
      connection,
      credentials,
      isRenewable: true,
      ...(found.validUntilMs !== undefined && {
        validUntil: {
          seconds: BigInt(Math.floor(found.validUntilMs / 1_000)),
          nanos: (found.validUntilMs % 1_000) * 1e6,
        },
      }),
    });
    return {
      case: "connection",
      value: create(EdgeConnectionSchema, {
        requestId,
        ref,
        version: bytes(found.version),
        state: { case: "live", value },
      }),
    };
  };

  const time = () => (broker.clock === undefined ? {} : { now: timestampFromMs(broker.clock()) });

  const keyMessage = (digest: Uint8Array, requestId: bigint): Answer => {
    const known = [...broker.keys].find(([secret]) => Buffer.compare(digestOf(secret), digest) === 0);
    const key = known && create(KeySchema, { id: known[1], environment: "dev", scopes: [Scope.PROXY] });
    return {
      case: "key",
      value: create(EdgeKeySchema, { requestId, digest, version: bytes("k1"), ...(key && { key }) }),
    };
  };

  const setup: readonly Answer[] = [
    {
      case: "provider",
      value: create(EdgeProviderSchema, {
        name: "played",
        version: bytes("p1"),
        provider: create(ProviderSchema, {
          name: "played",
          auth: { case: "apiKey", value: { header: "authorization", prefix: "Bearer " } },
          proxy: { baseUrl: providerUrl },
        }),
      }),
    },
    {
      case: "integration",
      value: create(EdgeIntegrationSchema, {
        key: "keyed",
        version: bytes("i1"),
        integration: create(IntegrationSchema, { key: "keyed", environment: "dev", provider: "played" }),
      }),
    },
  ];

  async function* follow(
    requests: AsyncIterable<FollowRequest>,
    { requestHeader }: HandlerContext,
  ): AsyncGenerator<FollowResponse> {
    broker.authorizations.push(requestHeader.get("authorization"));
    const queue: Answer[] = [];
    let wake = () => {};
    const send = (answer: Answer) => {
      if (broker.isFrozen) return;
      queue.push(answer);
      wake();
    };
    let isOver = false;
    const reading = (async () => {
      for await (const { message } of requests) {
        broker.received.push(message);
        if (message.case === "hello") {
          send({
            case: "welcome",
            value: { environment: "dev", heartbeatEvery: { seconds: 1n }, maxConnections: 10_000, ...time() },
          });
          if (broker.isFailing) return;
          for (const one of setup) send(one);
          for (const { ref, version } of message.value.connections) {
            const held = broker.connections.get(ref?.id ?? "");
            if (held === undefined || held.version !== Buffer.from(version).toString()) {
              send(connectionMessage(ref?.id ?? "", 0n));
            }
          }
          for (const { digest } of message.value.keys) send(keyMessage(digest, 0n));
          send({ case: "inSync", value: {} });
          streams.add(send);
        } else if (message.case === "wantConnection") {
          const { ref, requestId, refusedVersion } = message.value;
          if (refusedVersion.length > 0) broker.onRefused(ref?.id ?? "");
          send(connectionMessage(ref?.id ?? "", requestId));
        } else if (message.case === "wantKey") {
          send(keyMessage(message.value.digest, message.value.requestId));
        } else if (message.case === "heartbeat") send({ case: "heartbeat", value: time() });
      }
    })()
      .catch(() => {})
      .finally(() => {
        isOver = true;
        wake();
      });
    try {
      while (!isOver || queue.length > 0) {
        for (const message of queue.splice(0)) yield create(FollowResponseSchema, { message });
        if (queue.length === 0 && !isOver) await new Promise<void>((resolve) => (wake = resolve));
      }
    } finally {
      streams.delete(send);
      await reading;
    }
  }

  const handler = connectNodeAdapter({ routes: (router) => router.service(EdgeService, { follow }) });
  const broker: PlayedBroker = {
    get url() {
      return `http://127.0.0.1:${at}`;
    },
    connections: new Map(),
    keys: new Map(),
    received: [],
    authorizations: [],
    count: () => streams.size,
    push: (answer) => {
      for (const send of streams) send(answer);
    },
    pushConnection: (id) => broker.push(connectionMessage(id, 0n)),
    pushKey: (secret) => broker.push(keyMessage(digestOf(secret), 0n)),
    onRefused: () => {},
    isFrozen: false,
    clock: undefined,
    isFailing: false,
    async kill() {
      const stopped = server;
      server = undefined;
      const closed = new Promise<void>((resolve) =>
        stopped === undefined ? resolve() : stopped.close(() => resolve()),
      );
      for (const session of sessions) session.destroy();
      await closed;
    },
    async start() {
      server = createServer({}, handler);
      server.on("session", (session) => {
        sessions.add(session);
        session.on("error", () => {}).once("close", () => sessions.delete(session));
      });
      await new Promise<void>((resolve) => server?.listen(at, "127.0.0.1", resolve));
      const address = server.address();
      at = typeof address === "object" && address !== null ? address.port : at;
    },
  };
  await broker.start();
  onTestFinished(() => broker.kill());
  return broker;
}

const digestOf = (secret: string): Buffer => createHash("sha256").update(secret).digest();
