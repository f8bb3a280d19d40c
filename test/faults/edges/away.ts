import { setTimeout as sleep } from "node:timers/promises";
import { openWire, type Wire } from "../../support/postgres/wire.ts";
import { secretKey } from "../../support/sidecar/harness.ts";
import { restOf } from "../loss/service.ts";
import { environmentsAt, type Fleet, startFleet } from "./fleet.ts";
import { type Load, startLoad } from "./load.ts";
import type { Member } from "./member.ts";

/** All brokers are killed for a while under load, and something is revoked before edges reach them again. */
export interface AwayOptions {
  readonly edges: number;
  readonly seconds: number;
  /** Calls a second of all edges together. */
  readonly rate: number;
  readonly say: (line: string) => void;
}

export interface AwayOutcome {
  /** Calls from before the kill until all edges follow a broker again, by status; 0: no answer. */
  readonly calls: Readonly<Record<string, number>>;
  /** The slowest call. */
  readonly worstMs: number;
  /** The first calls without an answer. */
  readonly unanswered: readonly string[];
  /** Calls with what was revoked while edges could not know: they went through. */
  readonly unknowing: number;
  /** Milliseconds from the moment the brokers could be reached until the last edge followed one, and refused. */
  readonly followedMs: number;
  readonly refusedMs: number;
  /** Processes that ended by themselves. */
  readonly ended: readonly string[];
}

const connections = 8;
const patienceMs = 60_000;
const looksEveryMs = 25;
/** Credentials end only after the run. */
const marginS = 600;

export async function runAway({ edges: count, seconds, rate, say }: AwayOptions): Promise<AwayOutcome> {
  const wires: Wire[] = [];
  let fleet: Fleet | undefined;
  let load: Load | undefined;
  try {
    fleet = await startFleet({
      ...{ brokers: 3, edges: count, accessTokenS: seconds + marginS, forwardUrl: "http://127.0.0.1:1" },
      async throughWires(controls) {
        for (const control of controls) {
          const { hostname, port } = new URL(control);
          wires.push(await openWire(Number(port), hostname));
        }
        return wires.map(({ port }) => `http://127.0.0.1:${port}`);
      },
    });
    const { brokers, edges } = fleet;
    const calls = await prepare(fleet, seconds + marginS);
    say(`${brokers.length} brokers and ${edges.length} edges run`);

    load = startLoad({ edges, rate, ids: calls.ids, isRenewing: (id) => id.startsWith("renewing") });
    await sleep(1_000);
    await Promise.all(brokers.map((broker) => broker.kill()));
    const killedAt = performance.now();
    await allEdges(edges, async (edge) => (await readyText(edge)).includes("brokers away"));
    say("the brokers are killed, and the edges know");
    await sleep(Math.max(0, killedAt + seconds * 1_000 - performance.now()));

    // Brokers are there before edges reach them.
    for (const wire of wires) wire.cut();
    await Promise.all(brokers.map((broker) => broker.start()));
    const [first] = brokers;
    if (first === undefined) throw new Error("no broker was started");
    await environmentsAt(first.control).revokeKey({ id: calls.doomed.id });
    await restOf(first, "DELETE", "/connections/doomed?provider_config_key=keyed");
    const still = await Promise.all(edges.flatMap((edge) => calls.withRevoked(edge)));
    const mendedAt = performance.now();
    for (const wire of wires) wire.mend();
    const since = () => Math.round(performance.now() - mendedAt);
    const [followedMs, refusedMs] = await Promise.all([
      allEdges(edges, async (edge) => (await readyText(edge)) === "ok").then(since),
      allEdges(edges, async (edge) => {
        const [key, connection] = await Promise.all(calls.withRevoked(edge));
        return key === 401 && connection === 404;
      }).then(since),
    ]);
    await sleep(1_000);
    return {
      ...{ ...(await load.stop()), followedMs, refusedMs },
      unknowing: still.filter((status) => status === 200).length,
      ended: [...fleet.wrong],
    };
  } finally {
    await load?.stop();
    await fleet?.close();
    await Promise.all(wires.map((wire) => wire.close()));
  }
}

/** Creates connections and a key, and has each edge use them. */
async function prepare({ brokers, edges, sandbox }: Fleet, lifetimeS: number) {
  const [first] = brokers;
  if (first === undefined) throw new Error("no broker was started");
  const made = await environmentsAt(first.control).createKey({ environment: "dev", id: "doomed" });
  const doomed = { id: made.key?.id ?? "", secret: made.secret };
  await restOf(first, "POST", "/integrations", { unique_key: "keyed", provider: "here" });
  const app = { type: "OAUTH2", client_id: "sandbox", client_secret: "sandbox-secret" };
  const renewing = "sandbox-unified";
  await restOf(first, "POST", "/integrations", { unique_key: renewing, provider: renewing, credentials: app });
  const ids = Array.from({ length: connections }, (_, i) => (i % 2 === 0 ? `keyed-${i}` : `renewing-${i}`));
  for (const connection_id of [...ids, "doomed"]) {
    const isRenewing = connection_id.startsWith("renewing");
    const { access_token, refresh_token } = sandbox.grant();
    const expires_at = new Date(Date.now() + lifetimeS * 1_000).toISOString();
    const credentials = isRenewing
      ? { type: "OAUTH2", access_token, refresh_token, expires_at }
      : { type: "API_KEY", apiKey: `key-of-${connection_id}` };
    const body = { provider_config_key: isRenewing ? renewing : "keyed", connection_id, credentials };
    await restOf(first, "POST", "/connections", body);
  }
  const withRevoked = (edge: Member) => [
    proxied(edge, { id: "keyed-0", key: doomed.secret }),
    proxied(edge, { id: "doomed", key: secretKey }),
  ];
  await allEdges(edges, async (edge) => {
    const statuses = await Promise.all([
      ...withRevoked(edge),
      ...ids.map((id) => proxied(edge, { id, key: secretKey, isRenewing: id.startsWith("renewing") })),
    ]);
    return statuses.every((status) => status === 200);
  });
  return { ids, doomed, withRevoked };
}

interface Proxied {
  readonly id: string;
  readonly key: string;
  readonly isRenewing?: boolean;
}

/** Calls a provider through an edge; returns the status. */
export async function proxied({ data }: Pick<Member, "data">, { id, key, isRenewing = false }: Proxied) {
  const integration = isRenewing ? "sandbox-unified" : "keyed";
  const headers = { authorization: `Bearer ${key}`, "provider-config-key": integration, "connection-id": id };
  const path = isRenewing ? "/drive/v3/files?pageSize=1" : "/";
  const response = await fetch(`${data}/proxy${path}`, { headers });
  await response.arrayBuffer();
  return response.status;
}

async function readyText({ ops }: Member): Promise<string> {
  const response = await fetch(`${ops}/readyz`);
  return (await response.text()).trim();
}

/** Waits until this is so on each edge. */
async function allEdges(edges: readonly Member[], condition: (edge: Member) => Promise<boolean>): Promise<void> {
  await Promise.all(
    edges.map(async (edge) => {
      for (const end = performance.now() + patienceMs; performance.now() < end; await sleep(looksEveryMs))
        if (await condition(edge)) return;
      throw new Error(`${edge.name} did not come that far within a minute: ${edge.said()}`);
    }),
  );
}

export const describeAway = ({ calls, worstMs, unknowing, followedMs, refusedMs }: AwayOutcome): string =>
  `calls by status ${JSON.stringify(calls)}, the slowest ${worstMs.toFixed(0)} ms; ` +
  `${unknowing} calls with what was revoked before edges could know; ` +
  `all edges followed a broker ${followedMs} ms after it could be reached, and refused after ${refusedMs} ms`;
