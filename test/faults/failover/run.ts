import { setTimeout as sleep } from "node:timers/promises";
import { startSandbox } from "../../../src/dev/sandbox/sandbox.ts";
import { startPatroni } from "../../support/postgres/patroni.ts";
import { seeded } from "../../support/runner/seeded.ts";
import { calendarUri } from "../../support/sidecar/receiving.ts";
import { calm, startLossApplication } from "../loss/application.ts";
import { createBooks } from "../loss/books.ts";
import { startSending } from "../loss/senders.ts";
import { type Life, restOf, waitingAt } from "../loss/service.ts";
import { startBrokers } from "./brokers.ts";
import { type Failover, type FailoverKind, failOver } from "./fail-over.ts";
import { startKeyedProvider } from "./keyed-provider.ts";
import { startMetadataWriting } from "./metadata.ts";
import { type RenewalFindings, startRenewals } from "./renewals.ts";
import { promoteStale, type StaleFindings } from "./stale.ts";

/** A failover run: kills primaries under webhooks, refreshes and writes, then promotes a stale standby, and counts. */
export interface FailoverOptions {
  /** Webhooks to be acknowledged. */
  readonly count: number;
  readonly senders: number;
  /** The fewest kills of a primary; there are more while webhooks are sent. */
  readonly kills: number;
  readonly everyMs: number;
  /** Patroni's, in seconds. */
  readonly ttl: number;
  readonly accessTokenS: number;
  /** How long the provider takes a replaced refresh token again. */
  readonly graceS: number;
  /** What happens to primaries, by turns. */
  readonly kinds?: readonly FailoverKind[];
  /** Patroni's `synchronous_mode_strict`. */
  readonly isStrict?: boolean;
  /** Each machine has a member of etcd. */
  readonly hasOwnEtcd?: boolean;
  readonly say: (line: string) => void;
}

export interface FailoverOutcome {
  readonly acknowledged: number;
  readonly delivered: number;
  readonly duplicates: number;
  readonly lost: readonly string[];
  readonly wrong: readonly string[];
  /** How often a webhook's sender got 503, another status than 200, and no response. */
  readonly refused: number;
  readonly misled: number;
  readonly broken: number;
  readonly failovers: readonly Failover[];
  readonly renewals: RenewalFindings;
  readonly metadata: { readonly acknowledged: number; readonly refused: number; readonly lost: readonly string[] };
  readonly stale: StaleFindings;
  /** Processes that ended by themselves. */
  readonly ended: readonly string[];
  readonly minutes: number;
}

export const connectionsOf = (channel: number): readonly string[] => [`user-${channel}`];
/** Each other time, only PostgreSQL dies, and Patroni finds it dead. */
const usualKinds = ["machine", "postgres"] as const;
const renewingConnections = 6;
/** Everything is under way by then. */
const firstAfterMs = 3_000;
const emptyWithinMs = 120_000;
/** Longer than a broker takes to read what another one committed. */
const heardWithinMs = 2_500;

export async function runFailover(options: FailoverOptions): Promise<FailoverOutcome> {
  const { count, senders, kills, everyMs, ttl, accessTokenS, graceS, say } = options;
  const { kinds = usualKinds, isStrict = false, hasOwnEtcd = false } = options;
  const began = performance.now();
  const channels = Math.max(48, senders);
  const books = createBooks({ count, channels, connectionsOf });
  const closing: (() => unknown)[] = [];
  const opened = <T extends { readonly close: () => unknown }>(one: T): T => {
    closing.unshift(one.close);
    return one;
  };
  try {
    const cluster = await startPatroni({ ttl, isStrict, hasOwnEtcd });
    closing.unshift(cluster.stop);
    const application = opened(await startLossApplication({ books, random: seeded(1), temper: calm }));
    const sandbox = opened(await startSandbox({ behaviour: { accessTokenLifetimeS: accessTokenS, graceS } }));
    const provider = opened(await startKeyedProvider());
    const brokers = opened(await startBrokers({ cluster, sandbox, provider, forwardUrl: application.url }));
    const { lives, ended } = brokers;
    const [first] = lives;
    if (first === undefined) throw new Error("no broker was started");
    const path = await setUpFleet(first, channels);
    say(`${cluster.nodes.length} servers and ${lives.length} brokers run`);

    const stop = new AbortController();
    const renewals = await startRenewals({ lives, sandbox, connections: renewingConnections, accessTokenS });
    const metadata = await startMetadataWriting(lives);
    const sending = startSending({
      ...{ books, count, channels, senders, path, signal: stop.signal },
      addressFor: (channel) => lives[channel % lives.length]?.data,
    });
    let isSent = false;
    const sent = sending.done.then(() => {
      isSent = true;
    });
    const failovers: Failover[] = [];
    for (let next = performance.now() + Math.min(everyMs, firstAfterMs); !isSent || failovers.length < kills; ) {
      await Promise.race([sleep(Math.max(0, next - performance.now())), failovers.length < kills ? never : sent]);
      if (isSent && failovers.length >= kills) break;
      next = performance.now() + everyMs;
      const what = kinds[failovers.length % kinds.length] ?? "machine";
      const failover = await failOver({ cluster, metadata, what });
      failovers.push(failover);
      const { acknowledged, delivered } = books.counts;
      say(`${describeFailover(failover)}; ${acknowledged} webhooks acknowledged, ${delivered} delivered`);
    }
    await sent;
    await Promise.all([renewals.stop(), metadata.stop()]);
    await emptyOutbox(lives);
    const found = { renewals: renewals.audit(), metadata: await metadata.audit(), ...books.audit() };
    say("promoting a standby that lacks the last commits");
    const stale = await promoteStale({ cluster, lives, provider });
    const { acknowledged, delivered, duplicates } = books.counts;
    return {
      ...{ acknowledged, delivered, duplicates, ...found, ...sending.counts, failovers, stale },
      ended: [...ended],
      minutes: (performance.now() - began) / 60_000,
    };
  } finally {
    for (const close of closing) await close();
  }
}

const never = new Promise<never>(() => {});

export const describeFailover = ({ what, from, to, promotedMs, writesBackMs }: Failover): string =>
  `${what === "frozen" ? `machine of ${from} frozen` : `${what} of ${from} killed`}, ${to} is primary after ${seconds(promotedMs)}; ` +
  `writes back after ${writesBackMs.map(seconds).join(", ")}`;

const seconds = (ms: number): string => `${(ms / 1_000).toFixed(1)} s`;

/** Returns the path of the webhooks' URL. */
export async function setUpFleet(life: Pick<Life, "data">, channels: number): Promise<string> {
  await restOf(life, "POST", "/integrations", { unique_key: "keyed", provider: "here" });
  await restOf(life, "POST", "/integrations", {
    unique_key: "calendar",
    provider: "calendar",
    credentials: { type: "OAUTH2", client_id: "client", client_secret: "secret" },
  });
  await Promise.all(
    Array.from({ length: channels }, (_, channel) =>
      restOf(life, "POST", "/connections", {
        provider_config_key: "calendar",
        connection_id: connectionsOf(channel)[0],
        credentials: { type: "OAUTH2", access_token: `token-${channel}` },
        metadata: { calendarWatchResourceUris: [calendarUri(`shared-${channel}`)] },
      }),
    ),
  );
  const { data } = await restOf(life, "GET", "/integrations/calendar?include=webhook");
  return new URL(data.webhook_url).pathname;
}

export async function emptyOutbox(lives: readonly Pick<Life, "ops">[]): Promise<void> {
  const end = performance.now() + emptyWithinMs;
  for (let emptySince: number | undefined; performance.now() < end; await sleep(250)) {
    const waiting = await Promise.all(lives.map(waitingAt));
    if (waiting.some((one) => one !== 0)) emptySince = undefined;
    else emptySince ??= performance.now();
    if (emptySince !== undefined && performance.now() - emptySince > heardWithinMs) return;
  }
}
