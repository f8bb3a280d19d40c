import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { DescService } from "@bufbuild/protobuf";
import { type Client, createClient, type Interceptor } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { onTestFinished } from "vitest";
import { createLog } from "../../../src/base/log.ts";
import { createMetrics } from "../../../src/base/metrics/metrics.ts";
import type { World } from "../../../src/base/world.ts";
import { type Config, parseConfig } from "../../../src/config/config.ts";
import { defaultProxyLimits } from "../../../src/config/proxy.ts";
import { setBatchThreshold } from "../../../src/relay/batching.ts";
import type { ResolveHost } from "../../../src/relay/egress.ts";
import { type Sidecar, startSidecar } from "../../../src/sidecar.ts";

/** The keys that a sidecar of the tests is given. */
export const secretKey = "lk_test-secret-key-of-the-environment-dev";
export const adminKey = "lk_test-admin-key-of-the-control-plane";
/** 32 bytes. */
export const sealKey = `test:${Buffer.alloc(32, 7).toString("base64")}`;

/** The proxy's tests run on each HTTP path, and on the fast path also in batch mode. */
const lane = process.env["LATCHKEY_TEST_LANE"] ?? "fast";
/** Whether ordinary requests to providers take the fast path. */
export const isFastLane = lane !== "general";
if (lane === "crowd") setBatchThreshold(0);

/** Settings of a sidecar in tests: its own ports and store. */
export const testVariables = (folder: string): Readonly<Record<string, string>> => ({
  LATCHKEY_DATA_LISTEN: "127.0.0.1:0",
  LATCHKEY_CONTROL_LISTEN: "127.0.0.1:0",
  LATCHKEY_OPS_LISTEN: "127.0.0.1:0",
  LATCHKEY_STORE: `level:${folder}`,
  LATCHKEY_SEAL_KEYS: sealKey,
  LATCHKEY_SECRET_KEY: secretKey,
  LATCHKEY_ADMIN_KEY: adminKey,
  LATCHKEY_GRACE: "2s",
  LATCHKEY_FAST_LANE: isFastLane ? "on" : "off",
});

/** A sidecar in this process, with its own ports and store, and the means to call it. */
export interface TestSidecar {
  readonly sidecar: Sidecar;
  readonly config: Config;
  readonly world: World;
  readonly folder: string;
  /** Every logged line. */
  readonly logged: readonly string[];
  /** Addresses, without a slash at the end. */
  readonly data: string;
  readonly control: string;
  readonly ops: string;
  /** A request to the data listener with the environment's key. */
  rest(method: string, path: string, options?: RestOptions): Promise<RestAnswer>;
  /** A gRPC client with the control key. */
  client<S extends DescService>(service: S, key?: string): Client<S>;
  /** The value of one metric, by its name and labels as in the exposition. */
  metric(series: string): Promise<number | undefined>;
  stop(): Promise<void>;
}

export interface RestOptions {
  readonly body?: unknown;
  readonly key?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

export interface RestAnswer {
  readonly status: number;
  readonly headers: Headers;
  /** The parsed body; of an empty one, undefined. */
  // biome-ignore lint/suspicious/noExplicitAny: a test says itself what it expects of an answer.
  readonly body: any;
}

export interface HarnessOptions {
  readonly env?: Readonly<Record<string, string>>;
  /** Start again over the store of an earlier sidecar. */
  readonly folder?: string;
  readonly now?: () => number;
  /** Files by path: a configuration file, a certificate. */
  readonly files?: Readonly<Record<string, string>>;
  /** Resolves names of providers; default: the system's resolver. */
  readonly resolve?: ResolveHost;
}

const readerOf = (files: Readonly<Record<string, string>>) => ({
  read(path: string) {
    const text = files[path];
    if (text === undefined) throw Object.assign(new Error(path), { code: "ENOENT" });
    return { text, mode: 0o600 };
  },
});

/** A folder that is gone when the test has finished. */
export async function temporaryFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "latchkey-test-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

/** Starts a sidecar and stops it when the test has finished. */
export async function startTestSidecar(options: HarnessOptions = {}): Promise<TestSidecar> {
  const folder = options.folder ?? (await temporaryFolder());
  const running = await startUnmanaged({ ...options, folder });
  onTestFinished(() => running.stop());
  return running;
}

/** Like `startTestSidecar`, for a whole file; its caller must stop it. */
export async function startUnmanaged({
  env = {},
  folder,
  now = Date.now,
  files = {},
  resolve,
}: HarnessOptions & { readonly folder: string }): Promise<TestSidecar> {
  const config = unhurried(
    parseConfig({
      env: { ...testVariables(folder), ...env },
      files: readerOf(files),
    }),
  );
  const logged: string[] = [];
  const log = createLog({ level: "debug", format: "json", write: (line) => void logged.push(line) });
  const world: World = { now, log, metrics: createMetrics() };
  const sidecar = await startSidecar(config, world, resolve === undefined ? {} : { resolve });
  const { data = "", control = "", ops = "" } = sidecar.addresses;
  let stopped: Promise<void> | undefined;
  return {
    sidecar,
    config,
    world,
    folder,
    logged,
    data,
    control,
    ops,
    async rest(method, path, { body, key = secretKey, headers = {} } = {}) {
      const response = await fetch(`${data}${path}`, {
        method,
        headers: {
          authorization: `Bearer ${key}`,
          ...(body === undefined ? {} : { "content-type": "application/json" }),
          ...headers,
        },
        ...(body === undefined ? {} : { body: typeof body === "string" ? body : JSON.stringify(body) }),
      });
      const text = await response.text();
      return { status: response.status, headers: response.headers, body: text === "" ? undefined : JSON.parse(text) };
    },
    client: (service, key = adminKey) =>
      createClient(service, createGrpcTransport({ baseUrl: control, interceptors: [withKey(key)] })),
    async metric(series) {
      const { text } = await world.metrics.exposition();
      const line = text.split("\n").find((one) => one.startsWith(`${series} `));
      return line === undefined ? undefined : Number(line.slice(series.length + 1));
    },
    stop() {
      stopped ??= sidecar.stop();
      return stopped;
    },
  };
}

/** On a busy machine a sidecar is slow: it refuses requests for it only where a test sets the limit. */
function unhurried(config: Config): Config {
  const { overload: usual } = defaultProxyLimits;
  const { overload } = config.proxy;
  if (overload.delayMs !== usual.delayMs || overload.forMs !== usual.forMs) return config;
  return { ...config, proxy: { ...config.proxy, overload: { ...usual, delayMs: 0 } } };
}

const withKey =
  (key: string): Interceptor =>
  (next) =>
  (request) => {
    request.header.set("authorization", `Bearer ${key}`);
    return next(request);
  };

/** An integration of each kind that tests need, in the environment `dev`. */
export async function createIntegrations({ rest }: TestSidecar): Promise<void> {
  for (const [unique_key, provider] of [
    ["keyed", "example-api-key"],
    ["calendar", "calendar"],
    ["basic", "private-api-basic"],
    ["first", "example-oauth1"],
  ] as const) {
    const { status, body } = await rest("POST", "/integrations", { body: { unique_key, provider } });
    if (status !== 200) throw new Error(`the integration ${unique_key} was not created: ${JSON.stringify(body)}`);
  }
}

/** A connection to import, as `POST /connections` takes it. */
export const keyedConnection = (id: string, more: Readonly<Record<string, unknown>> = {}) => ({
  provider_config_key: "keyed",
  connection_id: id,
  credentials: { type: "API_KEY", apiKey: `key-of-${id}` },
  ...more,
});
