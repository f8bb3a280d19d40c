import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { EnvironmentService } from "../../../src/gen/latchkey/v1/environment_pb.ts";
import { WebhookService } from "../../../src/gen/latchkey/v1/webhook_pb.ts";
import { endWithUs } from "../proxy-process.ts";
import { type BenchSidecar, deployed, startBenchSidecar } from "../sidecar-process.ts";
import { type Application, startApplication } from "./application.ts";
import { uriOf } from "./sending.ts";

const adminKey = "lk_bench-admin-key-of-the-control-plane";
export const fanOut = 1_000;

/** A sidecar that receives webhooks, and the applications that it delivers to. */
export interface Receiver {
  /** The name of its rows. */
  readonly name: "webhooks" | "beside";
  readonly sidecar: BenchSidecar;
  readonly application: Application;
  /** For files of the bench. */
  readonly folder: string;
  /** The folder of LevelDB's files. */
  readonly store: string;
  /** The webhook addresses of each environment's calendar. */
  readonly paths: Readonly<Record<"idle" | "fast" | "beside" | "dead", string>>;
  readonly rpc: ReturnType<typeof rpcOf>;
  stop(): Promise<void>;
}

/** The first receiver is of this build. */
export type WebhooksPart = (receivers: readonly [Receiver, ...Receiver[]], rounds: number) => Promise<void>;

interface ReceiverBuild extends Pick<Receiver, "name" | "folder"> {
  /** Its `latchkey.js`; default: that of this checkout. */
  readonly dist?: string | undefined;
  /** The start of its command line. */
  readonly command?: readonly string[];
  /** A probe to load before it. */
  readonly loaded?: string;
}

const rpcOf = ({ control }: BenchSidecar) => {
  const transport = createGrpcTransport({
    baseUrl: control,
    interceptors: [
      (next) => (request) => {
        request.header.set("authorization", `Bearer ${adminKey}`);
        return next(request);
      },
    ],
  });
  return {
    environments: createClient(EnvironmentService, transport),
    webhooks: createClient(WebhookService, transport),
  };
};

/** Starts one with the Node options of the manifests. */
export async function startReceiver({ name, folder, dist, command, loaded }: ReceiverBuild): Promise<Receiver> {
  const application = await startApplication();
  const store = join(folder, `store-${name}`);
  mkdirSync(store);
  const configuration = join(folder, "latchkey.yaml");
  writeFileSync(configuration, "webhooks: { outbox: 10000000 }\n");
  const sidecar = await startBenchSidecar({
    folder: store,
    dist,
    env: { LATCHKEY_ADMIN_KEY: adminKey, LATCHKEY_CONFIG: configuration, ...deployed },
    ...(command !== undefined && { command }),
    ...(loaded !== undefined && { loaded }),
  });
  endWithUs(sidecar.pid);
  const rpc = rpcOf(sidecar);
  const paths = await createEnvironments({ sidecar, application, rpc });
  const stop = async () => {
    await sidecar.stop();
    application.stop();
  };
  return { name, sidecar, application, folder, store: join(store, "store"), paths, rpc, stop };
}

/** An environment for each kind of application, with a thousand connections of one URI and one of another. */
async function createEnvironments({
  sidecar,
  application,
  rpc,
}: Pick<Receiver, "sidecar" | "application" | "rpc">): Promise<Receiver["paths"]> {
  const paths: Record<string, string> = {};
  for (const [name, url] of Object.entries({
    idle: `${application.url}/gone`,
    fast: `${application.url}/fast`,
    beside: `${application.url}/fast`,
    dead: `${application.url}/dead`,
  })) {
    await rpc.environments.createEnvironment({ name, forwardUrl: url });
    const { secret } = await rpc.environments.createKey({ environment: name });
    const ask = async (method: string, path: string, body?: object) => {
      const answer = await fetch(`${sidecar.data}${path}`, {
        method,
        headers: { authorization: `Bearer ${secret}`, "content-type": "application/json" },
        ...(body && { body: JSON.stringify(body) }),
      });
      if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`);
      return (await answer.json()) as { readonly data: { readonly webhook_url: string } };
    };
    const credentials = { type: "OAUTH2", client_id: "id", client_secret: "secret" };
    await ask("POST", "/integrations", { unique_key: "calendar", provider: "calendar", credentials });
    const connect = (id: string, uri: string) =>
      ask("POST", "/connections", {
        provider_config_key: "calendar",
        connection_id: id,
        credentials: { type: "OAUTH2", access_token: "token" },
        metadata: { calendarWatchResourceUris: [uri] },
      });
    await connect("one", uriOf("one"));
    if (name === "fast") for (let i = 0; i < fanOut; i += 1) await connect(`of-many-${i}`, uriOf("many"));
    const { data } = await ask("GET", "/integrations/calendar?include=webhook");
    paths[name] = new URL(data.webhook_url).pathname;
  }
  return paths as Receiver["paths"];
}
