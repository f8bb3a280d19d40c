import { setTimeout as sleep } from "node:timers/promises";
import type { PatroniCluster } from "../../support/postgres/patroni.ts";
import { secretKey } from "../../support/sidecar/harness.ts";
import { type Life, metricAt, restOf } from "../loss/service.ts";
import type { KeyedProvider } from "./keyed-provider.ts";

export interface StaleFindings {
  /** Milliseconds from the promotion until each broker uses only what the promoted server holds. */
  readonly noticedMs: readonly number[];
  /** Calls after that with a credential that was rolled back. */
  readonly usedLater: number;
  /** Milliseconds until each broker accepts writes. */
  readonly writableMs: readonly number[];
}

interface StaleOptions {
  readonly cluster: PatroniCluster;
  readonly lives: readonly Life[];
  readonly provider: KeyedProvider;
}

const patienceMs = 60_000;
const lost = "history_lost";

/**
 * An operator promotes a standby that lacks the last commits, because the primary and the synchronous standby are gone.
 * A connection was made after it stopped following, and the API key of another one was replaced.
 */
export async function promoteStale({ cluster, lives, provider }: StaleOptions): Promise<StaleFindings> {
  const [first] = lives;
  if (first === undefined) throw new Error("there are no brokers");
  const connect = (connection_id: string, apiKey: string) =>
    restOf(first, "POST", "/connections", {
      ...{ provider_config_key: "keyed", connection_id, credentials: { type: "API_KEY", apiKey } },
    });
  await connect("replaced", "kept-key");
  const { synchronous, asynchronous } = await cluster.whole();
  const primary = await cluster.primary();
  const [{ lsn }] = await primary.query("select pg_current_wal_lsn() as lsn");
  await until(async () => {
    const [row] = await asynchronous.query(`select pg_last_wal_replay_lsn() >= '${lsn}' as has`);
    return row?.has === true;
  });
  asynchronous.kill("patroni");
  await asynchronous.query("alter system set primary_conninfo = ''");
  await asynchronous.query("select pg_reload_conf()");
  await until(async () => (await asynchronous.query("select from pg_stat_wal_receiver")).length === 0);

  await connect("ghost", "lost-ghost-key");
  await connect("replaced", "lost-key");
  for (const life of lives) {
    await until(async () => (await proxied(life, "ghost")) === 200);
    provider.take();
    await until(async () => (await proxied(life, "replaced")) === 200 && provider.take().includes("lost-key"));
  }
  const before = await Promise.all(lives.map(losses));

  primary.kill("machine");
  synchronous.kill("machine");
  await asynchronous.query("select pg_promote()");
  cluster.lead(asynchronous);
  const promotedAt = performance.now();
  const since = async (condition: () => Promise<boolean>) => {
    await until(condition);
    return Math.round(performance.now() - promotedAt);
  };
  const [noticedMs, writableMs] = await Promise.all([
    Promise.all(
      lives.map((life, i) =>
        since(async () => (await losses(life)) > (before[i] ?? 0) && (await proxied(life, "ghost")) === 404),
      ),
    ),
    Promise.all(
      lives.map((life, i) =>
        since(() =>
          restOf(life, "PATCH", "/connections/metadata", {
            ...{ provider_config_key: "keyed", connection_id: "replaced", metadata: { [`writer${i}`]: true } },
          }).then(
            () => true,
            () => false,
          ),
        ),
      ),
    ),
  ]);
  provider.take();
  const statuses: number[] = [];
  for (let round = 0; round < 20; round += 1) {
    for (const life of lives) statuses.push(await proxied(life, "replaced"), await proxied(life, "ghost"));
  }
  const used = provider.take();
  if (used.length !== statuses.length / 2) throw new Error(`of ${statuses.length / 2} calls, ${used.length} arrived`);
  return { noticedMs, writableMs, usedLater: used.filter((key) => key !== "kept-key").length };
}

const losses = async (life: Life): Promise<number> => (await metricAt(life, `latchkey_store_${lost}_total`)) ?? 0;

async function proxied({ data }: Life, id: string): Promise<number> {
  const headers = { authorization: `Bearer ${secretKey}`, "provider-config-key": "keyed", "connection-id": id };
  const response = await fetch(`${data}/proxy/`, { headers });
  await response.arrayBuffer();
  return response.status;
}

async function until(condition: () => Promise<boolean>): Promise<void> {
  for (const end = performance.now() + patienceMs; performance.now() < end; await sleep(25))
    if (await condition()) return;
  throw new Error("it did not happen within a minute");
}
