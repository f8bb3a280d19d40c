import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { createClient, type Interceptor } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { allowPrivateFor, describeProviders } from "../../../src/dev/sandbox/providers.ts";
import { type Sandbox, startSandbox } from "../../../src/dev/sandbox/sandbox.ts";
import { Scope } from "../../../src/gen/latchkey/v1/access_pb.ts";
import { EnvironmentService } from "../../../src/gen/latchkey/v1/environment_pb.ts";
import { startPostgres } from "../../support/postgres/postgres.ts";
import { adminKey } from "../../support/sidecar/harness.ts";
import { type KeyedProvider, startKeyedProvider } from "../failover/keyed-provider.ts";
import { brokerListens, type Member, startBroker, startEdge } from "./member.ts";

/** Brokers over one PostgreSQL, and the edges that follow them, each a process; and two providers. */
export interface Fleet {
  readonly brokers: readonly Member[];
  readonly edges: readonly Member[];
  readonly sandbox: Sandbox;
  readonly provider: KeyedProvider;
  /** Sentences about processes that ended by themselves, or badly. */
  readonly wrong: readonly string[];
  close(): Promise<void>;
}

interface FleetOptions {
  readonly brokers: number;
  readonly edges: number;
  readonly accessTokenS: number;
  readonly forwardUrl: string;
  /** What edges use instead of the brokers' own control listeners. */
  readonly throughWires?: (controls: readonly string[]) => Promise<readonly string[]>;
}

/** A load balancer would notice within this time that a process is about to stop. */
const drainDelay = "1s";
const startsAtOnce = 4;
/** Halves the start time of the many processes. */
const compiled = fileURLToPath(new URL("../../../node_modules/.cache/latchkey-compiled", import.meta.url));

export async function startFleet(options: FleetOptions): Promise<Fleet> {
  const closing: (() => unknown)[] = [];
  const close = async () => {
    for (const one of closing.splice(0)) await one();
  };
  try {
    return { ...(await open(options, closing)), close };
  } catch (error) {
    await close();
    throw error;
  }
}

async function open(options: FleetOptions, closing: (() => unknown)[]): Promise<Omit<Fleet, "close">> {
  const { accessTokenS, forwardUrl, throughWires = async (controls) => controls } = options;
  const folder = mkdtempSync(join(tmpdir(), "latchkey-fleet-"));
  closing.unshift(() => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }));
  const postgres = await startPostgres();
  closing.unshift(postgres.stop);
  const sandbox = await startSandbox({ behaviour: { accessTokenLifetimeS: accessTokenS, graceS: 60 } });
  closing.unshift(sandbox.close);
  const provider = await startKeyedProvider();
  closing.unshift(provider.close);
  const file = join(folder, "latchkey.yaml");
  const keyed = { name: "here", api_key: { header: "x-api-key" }, proxy: { base_url: `https://${provider.host}` } };
  writeFileSync(file, JSON.stringify({ providers: [...describeProviders(sandbox.origin), keyed] }));
  const common = {
    NODE_COMPILE_CACHE: compiled,
    LATCHKEY_ALLOW_PRIVATE: `${allowPrivateFor(sandbox.origin)},http://${provider.host}`,
    LATCHKEY_LOG_FORMAT: "json",
    LATCHKEY_DRAIN_DELAY: drainDelay,
    LATCHKEY_GRACE: "10s",
  };

  const wrong: string[] = [];
  let isOver = false;
  const onWrong = (what: string) => void (isOver || wrong.push(what));
  closing.unshift(() => {
    isOver = true;
  });
  const members: Member[] = [];
  closing.unshift(() => Promise.all(members.map((member) => member.kill())));
  const add = (started: Member): Member => {
    members.push(started);
    return started;
  };
  const brokers = await Promise.all(
    Array.from({ length: options.brokers }, async (_, i) => {
      const env = {
        ...common,
        ...(await brokerListens(i)),
        LATCHKEY_STORE: postgres.storeUrl("fleet"),
        LATCHKEY_CONFIG: file,
        LATCHKEY_FORWARD_URL: forwardUrl,
      };
      return add(await startBroker({ name: `broker ${i + 1}`, folder, env, onWrong }));
    }),
  );

  const controls = await throughWires(brokers.map(({ control }) => control));
  const env = {
    ...common,
    ...withoutStore,
    LATCHKEY_BROKERS: controls.join(","),
    LATCHKEY_BROKERS_DATA: brokers.map(({ data }) => data).join(","),
    LATCHKEY_BROKERS_KEY: await createEdgeKey(brokers[0]?.control ?? ""),
  };
  const edges: Member[] = [];
  for (let from = 0; from < options.edges; from += startsAtOnce) {
    const names = Array.from(
      { length: Math.min(startsAtOnce, options.edges - from) },
      (_, i) => `edge ${from + i + 1}`,
    );
    edges.push(...(await Promise.all(names.map(async (name) => add(await startEdge({ name, folder, env, onWrong }))))));
  }
  return { brokers, edges, sandbox, provider, wrong };
}

const withoutStore = {
  LATCHKEY_STORE: undefined,
  LATCHKEY_SEAL_KEYS: undefined,
  LATCHKEY_SECRET_KEY: undefined,
  LATCHKEY_ADMIN_KEY: undefined,
  LATCHKEY_CONTROL_LISTEN: undefined,
};

/** A client of a broker's control listener, with the control key. */
export const environmentsAt = (control: string) =>
  createClient(EnvironmentService, createGrpcTransport({ baseUrl: control, interceptors: [asAdmin] }));

export const asAdmin: Interceptor = (next) => (asked) => {
  asked.header.set("authorization", `Bearer ${adminKey}`);
  return next(asked);
};

async function createEdgeKey(control: string): Promise<string> {
  const made = await environmentsAt(control).createKey({ environment: "dev", id: "edges", scopes: [Scope.EDGE] });
  return made.secret;
}
