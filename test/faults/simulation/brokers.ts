import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { Fault } from "../../../src/base/fault.ts";
import { createLog } from "../../../src/base/log.ts";
import { createMetrics } from "../../../src/base/metrics/metrics.ts";
import type { World } from "../../../src/base/world.ts";
import { type Broker, openBroker } from "../../../src/broker/broker.ts";
import type { Config } from "../../../src/config/config.ts";
import { defaultRetention } from "../../../src/config/retention.ts";
import { defaultWebhooks } from "../../../src/config/webhooks.ts";
import { noScripts } from "../../../src/core/scripts/script.ts";
import { Scope } from "../../../src/gen/latchkey/v1/access_pb.ts";
import { type FollowRequest, FollowRequestSchema, FollowResponseSchema } from "../../../src/gen/latchkey/v1/edge_pb.ts";
import { ProviderSchema } from "../../../src/gen/latchkey/v1/provider_pb.ts";
import { loadCatalogue } from "../../../src/providers/catalogue.ts";
import { openStore } from "../../../src/sidecar/store.ts";
import { createStoreTrouble } from "../../../src/sidecar/store-trouble.ts";
// Loaded now: loading takes real time.
import "../../../src/store/postgres/postgres.ts";
import type { SealedStore } from "../../../src/store/sealed/sealed.ts";
import type { Peers } from "./peers.ts";
import { callServers, endCallsOf, type IncomingCall } from "./world/edge-wire.ts";
import type { SimulatedProcess } from "./world/time.ts";
import { world } from "./world/world.ts";

export const environment = "dev";
export const edgeKey = "lk_key-of-all-edges-in-the-simulation";

/** A process of `latchkey serve`, without its sockets. */
export interface RunningBroker {
  readonly name: string;
  readonly process: SimulatedProcess;
  /** Undefined until it is ready. */
  broker: Broker | undefined;
  store: SealedStore | undefined;
  readonly logged: string[];
  /** How many partitions it has. */
  partitions(): Promise<number>;
  /** Whether it may deliver webhooks now, as its metrics say. */
  delivers(): Promise<boolean>;
}

const keptLines = 400;

export function worldOf(logged: string[]): World {
  const log = createLog({
    level: "info",
    format: "json",
    write(line) {
      const { level, msg } = JSON.parse(line) as { readonly level: string; readonly msg: string };
      if (level === "warn" || level === "error") world.count(`"${msg}"`);
      logged.push(line);
      if (logged.length > keptLines) logged.shift();
    },
  });
  return { now: () => Date.now(), log, metrics: createMetrics() };
}

let starts = 0;

export function startBroker(name: string, peers: Peers): RunningBroker {
  starts += 1;
  const process = world.newProcess(name);
  const running: RunningBroker = {
    name,
    process,
    broker: undefined,
    store: undefined,
    logged: [],
    partitions: async () => 0,
    delivers: async () => false,
  };
  world.time.inside(process, () => {
    open(running, peers).catch((error: unknown) => {
      if (process.state !== "dead") world.fail(`${name} did not start`, error);
    });
  });
  return running;
}

async function open(running: RunningBroker, peers: Peers): Promise<void> {
  const own = worldOf(running.logged);
  const config = {
    store: { kind: "postgres", url: "postgres://latchkey@database/latchkey" },
    sealKeys: [{ id: "test", secret: Buffer.alloc(32, 7) }],
  } as unknown as Config;
  const { store, backend, endStart } = await openStore(config, {
    world: own,
    trouble: createStoreTrouble(own.log),
    signal: undefined,
  });
  const broker = await openBroker({
    store,
    backend,
    catalogue: loadCatalogue(),
    scripts: noScripts,
    publicUrl: () => "https://latchkey.example",
    host: running.name,
    retention: defaultRetention,
    send: peers.send,
    sendToApplication: peers.sendToApplication,
    webhooks: defaultWebhooks,
    world: own,
  });
  await broker.declare({
    environments: [
      { name: environment, forwardUrl: "https://application.example/", secondaryForwardUrl: "", allowedOrigins: [] },
    ],
    keys: [{ id: "edges", environment, secret: edgeKey, scopes: [Scope.EDGE], limits: undefined }],
    signingSecrets: [],
    policies: [],
    variables: [],
    integrations: peers.integrations,
    providers: peers.providers.map((provider) => create(ProviderSchema, provider)),
  });
  endStart();
  running.broker = broker;
  running.store = store;
  running.delivers = async () => (await own.metrics.delivering.get()).values[0]?.value === 1;
  running.partitions = async () => (await own.metrics.partitions.get()).values[0]?.value ?? 0;
  callServers.set(running.name, {
    process: running.process,
    accept: (call) => void serve(broker, call).catch((error: unknown) => world.fail(running.name, error)),
  });
}

/** What the control listener does with a call of `EdgeService.Follow`. */
async function serve(broker: Broker, call: IncomingCall): Promise<void> {
  try {
    const caller = await broker.access.authenticate(call.authorization.replace("Bearer ", ""));
    const answers = broker.edges.follow(requestsIn(call.received), {
      caller,
      signal: call.signal,
      onOverrun: () => {},
    });
    for await (const answer of answers) await call.send(framed(toBinary(FollowResponseSchema, answer)));
    call.end({ "grpc-status": "0" });
  } catch (error) {
    // Anything else would be logged as our own error.
    const isExpected = error instanceof Fault || (error as Error).name === "StoreUnavailable";
    if (!isExpected) throw error;
    call.end({ "grpc-status": "14", "grpc-message": encodeURIComponent((error as Error).message) });
  }
}

const prefixBytes = 5;

async function* requestsIn(received: AsyncIterable<Buffer>): AsyncGenerator<FollowRequest> {
  for await (const frame of received) yield fromBinary(FollowRequestSchema, frame.subarray(prefixBytes));
}

function framed(message: Uint8Array): Buffer {
  const frame = Buffer.alloc(prefixBytes + message.length);
  frame.writeUInt32BE(message.length, 1);
  frame.set(message, prefixBytes);
  return frame;
}

/** Ends a process at once. Unless its machine went with it, others are told by the end of its connections. */
export function kill(process: SimulatedProcess, { isSilent }: { readonly isSilent: boolean }): void {
  world.time.kill(process);
  if (isSilent) return;
  endCallsOf(process);
  for (const session of [...world.database.sessions.values()]) {
    if (session.process === process) world.database.close(session);
  }
}

export const brokerStarts = (): number => starts;
