import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { Worker } from "node:worker_threads";
import { createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { onTestFinished } from "vitest";
import { allowPrivateFor, describeProviders } from "../../src/dev/sandbox/providers.ts";
import type { Sandbox } from "../../src/dev/sandbox/sandbox.ts";
import { type Connection_State, ConnectionService } from "../../src/gen/latchkey/v1/connection_pb.ts";
import { testProgram } from "../support/runner/program.ts";
import { adminKey, secretKey, temporaryFolder } from "../support/sidecar/harness.ts";
import { launch, type Running } from "../support/sidecar/process.ts";
import type { Calling } from "./refresh-callers.ts";

const program = testProgram("replica");
export const provider = "sandbox-unified";
const app = { type: "OAUTH2", client_id: "sandbox", client_secret: "sandbox-secret" };

/** Latchkeys in processes of their own over one store, with the connection `ada` of a sandbox. */
export interface Replicas {
  readonly all: readonly Running[];
  /** Imports the tokens of a new consent, already expired. */
  authorise(): Promise<void>;
  /** Makes the current tokens expire. */
  expire(): Promise<void>;
  /** Sends as many calls at once as possible, spread over the replicas; returns the number of each outcome. */
  burst(load: Load): Promise<ReadonlyMap<string, number>>;
  /** Resolves when the replicas have seen the requests of the last burst. */
  arrived(): Promise<void>;
  /** The replica with a request to the token endpoint in progress; waits until there is one. */
  holder(): Promise<number>;
  /** The number of refreshes with this outcome, by replica. */
  outcomes(outcome: string): Promise<readonly number[]>;
  /** Kills a replica, and starts another in its place on request. */
  kill(index: number): { startAnother(): Promise<void> };
  /** The connection in the JSON routes. */
  // biome-ignore lint/suspicious/noExplicitAny: a test says itself what it expects of an answer.
  show(): Promise<any>;
  /** Why it must be authorised again. */
  reason(): Promise<string>;
  /** Collects the states of the connection in the order in which this replica reports them. */
  watchStates(index: number): readonly (Connection_State | string)[];
}

export type Load = Pick<Calling, "sockets" | "streams">;

interface ReplicaOptions {
  readonly store: string;
  readonly sandbox: Sandbox;
  readonly count: number;
  readonly leaseMs: number;
}

export async function startReplicas({ store, sandbox, count, leaseMs }: ReplicaOptions): Promise<Replicas> {
  const folder = await temporaryFolder();
  const file = join(folder, "latchkey.yaml");
  // A busy machine must not refuse callers whose refresh is what the test is about.
  const proxy = { overload: { delay: "0ms" } };
  writeFileSync(file, JSON.stringify({ providers: describeProviders(sandbox.origin), proxy }));
  const env = {
    LATCHKEY_STORE: store,
    LATCHKEY_CONFIG: file,
    LATCHKEY_ALLOW_PRIVATE: allowPrivateFor(sandbox.origin),
    REFRESH_LEASE_MS: String(leaseMs),
  };
  async function start(): Promise<Running> {
    const running = launch([], { program, folder, env });
    await running.says('"phase":"ready"');
    return running;
  }
  const all = await Promise.all(Array.from({ length: count }, start));
  const alive = () => all.filter(({ child }) => child.exitCode === null && child.signalCode === null);

  async function rest(method: string, path: string, body?: unknown) {
    const [one] = alive();
    const response = await fetch(`${one?.address("data")}${path}`, {
      method,
      headers: { authorization: `Bearer ${secretKey}`, "content-type": "application/json" },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
    return JSON.parse(text);
  }

  async function put(tokens: { readonly access_token: string; readonly refresh_token: string }): Promise<void> {
    const { access_token, refresh_token } = tokens;
    const expires_at = new Date(Date.now() - 60_000).toISOString();
    const credentials = { type: "OAUTH2", access_token, refresh_token, expires_at };
    await rest("POST", "/connections", { provider_config_key: provider, connection_id: "ada", credentials });
  }

  const show = () => rest("GET", `/connections/ada?provider_config_key=${provider}&credentials=false`);

  function connectionsOf(running: Running) {
    const transport = createGrpcTransport({
      baseUrl: running.address("control"),
      interceptors: [
        (next) => (asked) => {
          asked.header.set("authorization", `Bearer ${adminKey}`);
          return next(asked);
        },
      ],
    });
    return createClient(ConnectionService, transport);
  }

  const ref = { environment: "dev", integration: provider, id: "ada" };
  const metricsOf = async (running: Running) => (await fetch(`${running.address("ops")}/metrics`)).text();
  /** Resolves once the requests of the last burst were sent. */
  let sent: Promise<unknown> = Promise.resolve();

  await rest("POST", "/integrations", { unique_key: provider, provider, credentials: app });

  return {
    all,
    authorise: () => put(sandbox.grant()),
    async expire() {
      const path = `/connections/ada?provider_config_key=${provider}&refresh_token=true`;
      await put((await rest("GET", path)).credentials);
    },
    async burst(load) {
      const running = alive();
      const [data, control] = [running.map((one) => one.address("data")), running.map((one) => one.address("control"))];
      const calling: Calling = { ...load, data, control, secretKey, adminKey, integration: provider, id: "ada" };
      const callers = new Worker(new URL("refresh-callers.ts", import.meta.url), { workerData: calling });
      onTestFinished(async () => void (await callers.terminate()));
      sent = once(callers, "message");
      await sent;
      const [counted] = await once(callers, "message");
      return counted as ReadonlyMap<string, number>;
    },
    async arrived() {
      await sent;
      // Each answer comes one tick of its loop later, with everything else that had arrived.
      for (let lap = 0; lap < 5; lap += 1) await Promise.all(alive().map(metricsOf));
    },
    async holder() {
      const until = performance.now() + 20_000;
      while (performance.now() < until) {
        for (const running of alive()) {
          const text = await metricsOf(running);
          if (/^latchkey_refreshes_open 1$/m.test(text)) return all.indexOf(running);
        }
      }
      throw new Error("nobody has a token request under way");
    },
    outcomes: (outcome) =>
      Promise.all(
        all.map(async (running) => {
          const text = await metricsOf(running);
          const [, count = "0"] =
            new RegExp(`^latchkey_refreshes_total\\{outcome="${outcome}"\\} (\\d+)$`, "m").exec(text) ?? [];
          return Number(count);
        }),
      ),
    kill(index) {
      all[index]?.child.kill("SIGKILL");
      return {
        async startAnother() {
          all[index] = await start();
        },
      };
    },
    show,
    watchStates(index) {
      const states: (Connection_State | string)[] = [];
      const one = all[index];
      if (one === undefined) throw new Error(`there is no replica ${index}`);
      const over = new AbortController();
      onTestFinished(() => over.abort());
      const steps = connectionsOf(one).watchConnections({ environment: "dev" }, { signal: over.signal });
      async function collect() {
        for await (const { event } of steps) {
          if (event.case !== "put") continue;
          const { state } = event.value;
          if (state !== states.at(-1)) states.push(state);
        }
      }
      // Ends with the test, or with the replica.
      collect().catch((error: unknown) => over.signal.aborted || states.push(String(error)));
      return states;
    },
    async reason() {
      const [one] = alive();
      if (one === undefined) throw new Error("nobody is left to ask");
      return (await connectionsOf(one).getConnection({ ref })).connection?.stateReason ?? "";
    },
  };
}
