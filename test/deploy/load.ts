import http from "node:http";
import { createClient, type Interceptor } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { onTestFinished } from "vitest";
import { ConnectionService } from "../../src/gen/latchkey/v1/connection_pb.ts";
import { foreignClient } from "../cases/control-plane/foreign.ts";
import { adminKey, secretKey } from "../support/sidecar/harness.ts";
import { call } from "../support/wire/proxy-call.ts";

/** The results of many callers that sent requests without a pause. */
export interface Load {
  /** The number of correct responses, by kind of request. */
  readonly answered: Readonly<Record<string, number>>;
  /** Every other outcome. */
  readonly failed: readonly string[];
  /** The responses that told their caller to reconnect. */
  readonly movedOn: () => number;
  stop(): Promise<void>;
}

interface LoadOptions {
  readonly data: string;
  readonly control: string;
  /** The number of callers of each kind. */
  readonly callers: number;
}

export const proxyHeaders = {
  authorization: `Bearer ${secretKey}`,
  "provider-config-key": "here",
  "connection-id": "ada",
};

/** Callers as applications have them: connections that are kept, over HTTP and gRPC, and no second try. */
export function startLoad({ data, control, callers }: LoadOptions): Load {
  const agent = new http.Agent({ keepAlive: true, maxSockets: 4 * callers });
  const withKey: Interceptor = (next) => (request) => {
    request.header.set("authorization", `Bearer ${adminKey}`);
    return next(request);
  };
  const ref = { environment: "dev", integration: "here", id: "ada" };
  const connect = createClient(ConnectionService, createGrpcTransport({ baseUrl: control, interceptors: [withKey] }));
  const foreign = foreignClient(control);
  onTestFinished(() => agent.destroy());
  let movedOn = 0;

  async function ask(path: string, { method = "GET", body }: { method?: string; body?: string } = {}): Promise<void> {
    const headers = { ...proxyHeaders, ...(body === undefined ? {} : { "content-type": "application/json" }) };
    const sent = body === undefined ? { method, headers, agent } : { method, headers, agent, body };
    const { status, outcome, fields } = await call(`${data}${path}`, sent);
    if (fields.some(([name, value]) => name === "connection" && value === "close")) movedOn += 1;
    if (status !== 200 || outcome !== "ended") throw new Error(`${status} ${outcome}`);
  }

  let n = 0;
  const kinds: Readonly<Record<string, () => Promise<unknown>>> = {
    read: () => ask("/connections/ada?provider_config_key=here"),
    write: () => {
      n += 1;
      const body = { connection_id: "ada", provider_config_key: "here", metadata: { n } };
      return ask("/connection/metadata", { method: "PATCH", body: JSON.stringify(body) });
    },
    proxy: () => ask("/proxy/soon"),
    upload: () => ask("/proxy/soon", { method: "POST", body: JSON.stringify("x".repeat(2_000)) }),
    "connect-node": () => connect.getConnection({ ref }),
    "grpc-js": () => foreign.unary("ConnectionService/GetConnection", { ref }),
  };

  const answered: Record<string, number> = {};
  const failed: string[] = [];
  let isOver = false;
  async function askOn(kind: string, once: () => Promise<unknown>): Promise<void> {
    while (!isOver) {
      try {
        await once();
        answered[kind] = (answered[kind] ?? 0) + 1;
      } catch (error) {
        failed.push(`${kind}: ${error instanceof Error ? error.message : String(error)}`);
      }
    }
  }
  const all = Object.entries(kinds).flatMap(([kind, once]) => Array.from({ length: callers }, () => askOn(kind, once)));
  return {
    answered,
    failed,
    movedOn: () => movedOn,
    async stop() {
      isOver = true;
      await Promise.all(all);
    },
  };
}
