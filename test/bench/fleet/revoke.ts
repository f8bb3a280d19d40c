import { setTimeout as sleep } from "node:timers/promises";
import { createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { ConnectionService } from "../../../src/gen/latchkey/v1/connection_pb.ts";
import { proxied } from "../../faults/edges/away.ts";
import { asAdmin, environmentsAt, type Fleet, startFleet } from "../../faults/edges/fleet.ts";
import type { Member } from "../../faults/edges/member.ts";
import { restOf } from "../../faults/loss/service.ts";
import { secretKey } from "../../support/sidecar/harness.ts";
import { loadAverage } from "../proxy-process.ts";
import { ms, quantile } from "../sidecar-process.ts";

interface Revoking {
  /** Number of edges. */
  readonly count: number;
  readonly rounds: number;
}

/** Something that can be used through each edge until it is revoked. */
interface Usable {
  /** Returns the status of a use. */
  use(edge: Member): Promise<number>;
  /** Resolves when a broker has answered that it is revoked. */
  revoke(): Promise<unknown>;
}

type Make = (fleet: Fleet, round: number) => Promise<Usable>;

/** How long edges go on with what a broker has revoked: from its answer to the last edge's refusal. */
export async function revoke({ count, rounds }: Revoking): Promise<void> {
  const fleet = await startFleet({
    ...{ brokers: 3, edges: count || 20, accessTokenS: 3_600, forwardUrl: "http://127.0.0.1:1" },
  });
  try {
    await restOf(first(fleet), "POST", "/integrations", { unique_key: "keyed", provider: "here" });
    await connect(fleet, "ada");
    for (const [name, make] of Object.entries(kinds)) {
      const times: number[] = [];
      for (let round = 0; round < (rounds || 20); round += 1) times.push(await timeOf(fleet, await make(fleet, round)));
      times.sort((a, b) => a - b);
      const { length } = fleet.edges;
      process.stdout.write(
        `${name}: refused by all ${length} edges after ${ms(quantile(times, 0.5))} (median), ${ms(times.at(-1) ?? 0)} (max) of ${times.length}; load average ${loadAverage()}\n`,
      );
    }
  } finally {
    await fleet.close();
  }
}

const pauseMs = 5;

/** Milliseconds until the last edge refuses; includes what a use takes, and a pause between two of them. */
async function timeOf({ edges }: Fleet, { use, revoke }: Usable): Promise<number> {
  await Promise.all(edges.map((edge) => until(async () => (await use(edge)) === 200)));
  await revoke();
  const since = performance.now();
  await Promise.all(edges.map((edge) => until(async () => (await use(edge)) !== 200)));
  return performance.now() - since;
}

async function until(condition: () => Promise<boolean>): Promise<void> {
  while (!(await condition())) await sleep(pauseMs);
}

function first({ brokers }: Fleet): Member {
  const [broker] = brokers;
  if (broker === undefined) throw new Error("there is a broker");
  return broker;
}

const clientOf = (fleet: Fleet) => createGrpcTransport({ baseUrl: first(fleet).control, interceptors: [asAdmin] });

const connect = (fleet: Fleet, connection_id: string) =>
  restOf(first(fleet), "POST", "/connections", {
    ...{ provider_config_key: "keyed", connection_id, credentials: { type: "API_KEY", apiKey: "k" } },
  });

async function sessionStatus(data: string, method: "GET" | "DELETE", token: string): Promise<number> {
  const response = await fetch(`${data}/connect/session`, { method, headers: { authorization: `Bearer ${token}` } });
  await response.arrayBuffer();
  return response.status;
}

const kinds: Readonly<Record<string, Make>> = {
  async key(fleet) {
    const environments = environmentsAt(first(fleet).control);
    const { key, secret } = await environments.createKey({ environment: "dev" });
    return {
      use: (edge) => proxied(edge, { id: "ada", key: secret }),
      revoke: () => environments.revokeKey({ id: key?.id ?? "" }),
    };
  },
  async connection(fleet, round) {
    const id = `user-${round}`;
    await connect(fleet, id);
    const ref = { environment: "dev", integration: "keyed", id };
    return {
      use: (edge) => proxied(edge, { id, key: secretKey }),
      revoke: () => createClient(ConnectionService, clientOf(fleet)).deleteConnection({ ref }),
    };
  },
  // Edges relay these to any of the brokers.
  async "connect session"(fleet) {
    const body = { end_user: { id: "ada" }, allowed_integrations: ["keyed"] };
    const { token } = (await restOf(first(fleet), "POST", "/connect/sessions", body)).data;
    return {
      use: ({ data }) => sessionStatus(data, "GET", token),
      revoke: () => sessionStatus(first(fleet).data, "DELETE", token),
    };
  },
};
