import { create } from "@bufbuild/protobuf";
import type { LiveConnection } from "../../../src/broker/credentials/live-connections.ts";
import { type Followed, openFollowed } from "../../../src/edge/followed.ts";
import { ConnectionRefSchema } from "../../../src/gen/latchkey/v1/connection_pb.ts";
import { edgeKey, environment, worldOf } from "./brokers.ts";
import type { SimulatedProcess } from "./world/time.ts";
import { world } from "./world/world.ts";

/** A process of `latchkey edge`, without its sockets. */
export interface RunningEdge {
  readonly name: string;
  readonly process: SimulatedProcess;
  readonly followed: Followed;
  readonly logged: readonly string[];
}

const credentials = {
  tls: { ca: undefined, cert: undefined, key: undefined },
  secret: edgeKey,
  endsAtMs: undefined,
};
export const maxAwayMs = 120_000;

export function startEdge(name: string, brokers: readonly string[]): RunningEdge {
  const process = world.newProcess(name);
  const logged: string[] = [];
  const followed = world.time.inside(process, () =>
    openFollowed(
      {
        urls: brokers.map((broker) => `http://${broker}`),
        dataUrls: [],
        credentials: { read: () => credentials, last: () => credentials, files: [] },
        environment,
        maxConnections: 10_000,
        maxAwayMs,
      },
      worldOf(logged),
    ),
  );
  return { name, process, followed, logged };
}

export const refOf = (integration: string, id: string) => create(ConnectionRefSchema, { environment, integration, id });

/** What a request through an edge would be sent with; asks as the proxy does: key first, then connection. */
export async function askOnEdge(
  { process, followed }: RunningEdge,
  { secret, integration, id }: { readonly secret: string; readonly integration: string; readonly id: string },
): Promise<LiveConnection> {
  return world.time.inside(process, async () => {
    await followed.access.authenticate(secret);
    const ref = refOf(integration, id);
    return followed.live.peek(ref) ?? (await followed.live.get(ref));
  });
}
