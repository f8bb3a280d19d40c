import { onTestFinished } from "vitest";
import { createLog } from "../../../src/base/log.ts";
import { createMetrics } from "../../../src/base/metrics/metrics.ts";
import type { World } from "../../../src/base/world.ts";
import { parseEdgeConfig } from "../../../src/config/edges/edge-config.ts";
import { startEdge } from "../../../src/edge/edge.ts";
import type { ResolveHost } from "../../../src/relay/egress.ts";
import { isFastLane, secretKey } from "../sidecar/harness.ts";

/** An edge in this process, with its own ports. */
export interface TestEdge {
  readonly data: string;
  readonly ops: string;
  /** `http://127.0.0.1:port` of the forward proxy; empty: it is off. */
  readonly forward: string;
  /** Addresses of aliases, by their names. */
  readonly aliases: Readonly<Record<string, string>>;
  readonly logged: readonly string[];
  readonly world: World;
  /** A request to a provider through the edge. */
  proxy(
    id: string,
    options?: { readonly key?: string; readonly path?: string; readonly headers?: Record<string, string> },
  ): Promise<Response>;
  ready(): Promise<{ readonly status: number; readonly text: string }>;
  metric(series: string): Promise<number | undefined>;
  /** Files that the edge reads; a test may replace them. */
  readonly files: Record<string, string>;
  /** Reads the files of its credentials again, as the process does after a change. */
  renew(): void;
  /** Reads the rules for identities again, as the process does after a change. */
  reload(): Promise<void>;
  stop(): Promise<void>;
}

interface TestEdgeOptions {
  readonly brokers: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  readonly files?: Readonly<Record<string, string>>;
  readonly now?: () => number;
  /** Resolves names of providers; default: the system's resolver. */
  readonly resolve?: ResolveHost;
  /** False: does not wait for a broker. `data` is empty then. */
  readonly isAwaited?: boolean;
}

/** Starts an edge, and stops it when the test has finished. */
export async function startTestEdge(options: TestEdgeOptions): Promise<TestEdge> {
  const edge = await startUnmanagedEdge(options);
  onTestFinished(edge.stop);
  return edge;
}

/** Like `startTestEdge`, for a whole file; its caller must stop it. */
export async function startUnmanagedEdge({
  brokers,
  env = {},
  files: given = {},
  now = Date.now,
  resolve,
  isAwaited = true,
}: TestEdgeOptions): Promise<TestEdge> {
  const files = { ...given };
  const config = parseEdgeConfig({
    env: {
      LATCHKEY_DATA_LISTEN: "127.0.0.1:0",
      LATCHKEY_OPS_LISTEN: "127.0.0.1:0",
      LATCHKEY_GRACE: "2s",
      LATCHKEY_FAST_LANE: isFastLane ? "on" : "off",
      LATCHKEY_BROKERS: brokers.join(","),
      LATCHKEY_BROKERS_KEY: "lk_key-of-an-edge-in-tests",
      ...env,
    },
    files: {
      read(path) {
        const text = files[path];
        if (text === undefined) throw Object.assign(new Error(path), { code: "ENOENT" });
        return { text, mode: 0o600 };
      },
    },
  });
  const logged: string[] = [];
  const log = createLog({ level: "debug", format: "json", write: (line) => void logged.push(line) });
  const world: World = { now, log, metrics: createMetrics() };
  const abort = new AbortController();
  const starting = startEdge(config, world, { signal: abort.signal, ...(resolve && { resolve }) });
  starting.catch(() => {});
  const edge = isAwaited ? await starting : undefined;
  const { data = "", ops = "", forwardProxy: forward = "" } = edge?.addresses ?? {};
  async function end(): Promise<void> {
    abort.abort();
    await starting.then(
      (started) => started.stop(),
      () => {},
    );
  }
  let stopped: Promise<void> | undefined;
  const stop = () => (stopped ??= end());
  /** The ops listener opens before there is a broker. */
  const opsNow = () =>
    ops || (logged.map((line) => JSON.parse(line)).find(({ door }) => door === "ops")?.address as string);
  return {
    data,
    ops,
    forward,
    aliases: edge?.aliases ?? {},
    logged,
    world,
    proxy: (id, { key = secretKey, path = "/", headers = {} } = {}) =>
      fetch(`${data}/proxy${path}`, {
        headers: { authorization: `Bearer ${key}`, "provider-config-key": "keyed", "connection-id": id, ...headers },
      }),
    async ready() {
      const response = await fetch(`${opsNow()}/readyz`);
      return { status: response.status, text: await response.text() };
    },
    async metric(series) {
      const { text } = await world.metrics.exposition();
      const line = text.split("\n").find((one) => one.startsWith(`${series} `));
      return line === undefined ? undefined : Number(line.slice(series.length + 1));
    },
    files,
    renew: () => void starting.then((started) => started.renew()),
    reload: () => starting.then((started) => started.reload()),
    stop,
  };
}
