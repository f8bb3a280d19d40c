import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { tailFile } from "../../../src/store/level/last-revision.ts";
import { startPostgres } from "../../support/postgres/postgres.ts";
import { below, seeded } from "../../support/runner/seeded.ts";
import { calendarUri } from "../../support/sidecar/receiving.ts";
import { compileDisk, createFaultyDisk, type FaultyDisk } from "../disk.ts";
import { startLossApplication, type Temper } from "./application.ts";
import { createBooks } from "./books.ts";
import { startSending } from "./senders.ts";
import { beginLife, type Life, restOf, waitingAt } from "./service.ts";

/** A loss run: sends webhooks during all kinds of faults, and then counts. */
export interface LossOptions {
  readonly count: number;
  readonly senders: number;
  readonly seed: number;
  readonly backend: "level" | "postgres";
  /**
   * The number of each fault, at random moments. On PostgreSQL there are two replicas, and power and disk are the
   * server's.
   */
  readonly kills: number;
  readonly power: number;
  readonly fullDisks: number;
  readonly clockSteps: number;
  readonly temper: Temper;
  readonly perDestination: number;
  /**
   * For a run that must lose data: LevelDB's log is not synced, each kill is a power loss, and the mark by which the
   * store would notice is removed.
   */
  readonly withoutSync?: boolean;
  readonly deliveryLeaseMs?: number;
  readonly say: (line: string) => void;
  /** Receives the last warnings of each sidecar. */
  readonly onLog?: (text: string) => void;
}

export interface LossOutcome {
  readonly sent: number;
  readonly acknowledged: number;
  readonly delivered: number;
  readonly lost: readonly string[];
  readonly wrong: readonly string[];
  readonly duplicates: number;
  /** Deliveries under way at once, for each process that was killed. */
  readonly duplicatesAllowed: number;
  readonly overtaken: number;
  readonly kills: number;
  readonly powerLosses: number;
  readonly fullDisks: number;
  readonly diskErrors: number;
  readonly clockSteps: number;
  /** How often a sender got 503, another status than 200, and no response. */
  readonly refused: number;
  readonly misled: number;
  readonly broken: number;
  readonly minutes: number;
}

type Trouble = "kill" | "power" | "disk" | "clock";

const minute = 60_000;
const hour = 60 * minute;
/** Three connections list every eighth channel's URI, one connection each of the others. */
const connectionsOf = (channel: number): readonly string[] =>
  Array.from({ length: channel % 8 === 0 ? 3 : 1 }, (_, i) => `user-${channel}-${i}`);
/**
 * Deliveries older than an hour are deleted, so that deletion runs beside the rest; few may wait, so that 503 occurs.
 */
/** PostgreSQL's feed is read twice a second, by one of the replicas. */
const heardWithinMs = 2_500;
const configuration = { retention: { deliveries: "1h" }, webhooks: { outbox: 5_000 } };
/** A run of this many without a forward being delivered, the clock stepping all the while, is stuck. */
const stuckAfterMs = 90_000;

export async function runLoss(options: LossOptions): Promise<LossOutcome> {
  const {
    count,
    senders,
    seed,
    backend,
    temper,
    perDestination,
    withoutSync = false,
    deliveryLeaseMs,
    say,
    onLog,
  } = options;
  const random = seeded(seed);
  const began = performance.now();
  const channels = Math.max(64, senders);
  const books = createBooks({ count, channels, connectionsOf });
  const folder = mkdtempSync(join(tmpdir(), "latchkey-loss-"));
  const file = join(folder, "latchkey.yaml");
  const application = await startLossApplication({ books, random: seeded(seed + 1), temper });
  const postgres = backend === "postgres" ? await startPostgres() : undefined;
  const needsDisk = options.power > 0 || options.fullDisks > 0 || withoutSync;
  const shim = needsDisk && postgres === undefined ? compileDisk(folder) : undefined;
  writeFileSync(
    file,
    JSON.stringify({ ...configuration, webhooks: { ...configuration.webhooks, per_destination: perDestination } }),
  );
  const env = {
    LATCHKEY_CONFIG: file,
    LATCHKEY_FORWARD_URL: application.url,
    ...(postgres !== undefined && { LATCHKEY_STORE: postgres.storeUrl("loss") }),
    ...(deliveryLeaseMs !== undefined && { DELIVERY_LEASE_MS: String(deliveryLeaseMs) }),
  };
  const lives: (Life | undefined)[] = Array.from({ length: postgres === undefined ? 1 : 2 }, () => undefined);
  const stop = new AbortController();
  const counts = { kills: 0, powerLosses: 0, fullDisks: 0, diskErrors: 0, clockSteps: 0 };
  let disk: FaultyDisk | undefined;
  let clockOffsetMs = 0;
  let isOver = false;
  let isFurnished = false;

  function beginOne() {
    // The content at the start counts as durable: a killed process leaves the page cache intact.
    if (shim !== undefined) {
      const noSync = withoutSync && isFurnished ? ".log" : "";
      disk = createFaultyDisk({ folder: join(folder, "store"), shim, noSync });
    }
    return beginLife({ folder, env: { ...env, ...disk?.env }, clockOffsetMs });
  }

  async function start(which: number): Promise<void> {
    for (;;) {
      const beginning = beginOne();
      // Sometimes one is killed before it is ready.
      if (lives[which] === undefined && counts.kills > 0 && random() < 0.15) {
        await sleep(100 + random() * 600);
        await beginning.kill();
        counts.kills += 1;
        afterDeath({ isPower: withoutSync });
        continue;
      }
      const life = await beginning.ready();
      lives[which] = life;
      void life.ended.then((why) => {
        if (lives[which] === life && !isOver) stop.abort(new Error(why));
      });
      return;
    }
  }

  function afterDeath({ isPower }: { readonly isPower: boolean }): void {
    counts.diskErrors += disk?.faults() ?? 0;
    if (!isPower) return;
    counts.powerLosses += 1;
    const unsynced = withoutSync ? "gone" : ((["gone", "torn", "zeros"] as const)[below(random, 3)] ?? "gone");
    disk?.losePower({ random, unsynced, names: random() < 0.5 ? "own" : "ordered" });
    if (withoutSync) rmSync(join(folder, "store", tailFile), { force: true });
  }

  async function kill(which: number, isPower: boolean): Promise<void> {
    const life = lives[which];
    lives[which] = undefined;
    await life?.kill();
    onLog?.(life?.said() ?? "");
    counts.kills += 1;
    afterDeath({ isPower: isPower || withoutSync });
    await start(which);
  }

  function setClock(toMs: number): void {
    clockOffsetMs = toMs;
    for (const life of lives) life?.setClock(toMs);
  }

  const meet: Readonly<Record<Trouble, () => Promise<void>>> = {
    kill: () => kill(below(random, lives.length), false),
    power: () => kill(0, true),
    async disk() {
      counts.fullDisks += 1;
      disk?.fail({ error: "ENOSPC", calls: ["write"], afterBytes: below(random, 20_000) });
      // Some are longer than a lease lasts without renewal.
      await sleep(counts.fullDisks % 5 === 2 ? 18_000 : 1_000 + random() * 3_000);
      disk?.heal();
    },
    async clock() {
      counts.clockSteps += 1;
      const isBack = random() < 0.5;
      setClock(clockOffsetMs + (isBack ? -1 : 1) * (10 * minute + below(random, 3 * hour)));
    },
  };

  async function makeTrouble(): Promise<void> {
    const kinds: Trouble[] = [
      ...Array.from({ length: options.kills }, () => "kill" as const),
      ...Array.from({ length: postgres === undefined ? options.power : 0 }, () => "power" as const),
      ...Array.from({ length: postgres === undefined ? options.fullDisks : 0 }, () => "disk" as const),
      ...Array.from({ length: options.clockSteps }, () => "clock" as const),
    ];
    const planned = kinds
      .map((kind) => ({ kind, at: Math.floor(random() * count * 0.95) }))
      .sort((a, b) => a.at - b.at);
    for (const { kind, at } of planned) {
      while (books.counts.acknowledged < at && !stop.signal.aborted) await sleep(random() * 20);
      if (stop.signal.aborted) return;
      await meet[kind]();
    }
  }

  /** Stops all faults and waits. Failed deliveries become due as the clock advances. */
  async function emptyOutbox(): Promise<void> {
    application.calmDown();
    let before = books.counts.arrived;
    let emptySince: number | undefined;
    for (let since = performance.now(); performance.now() - since < stuckAfterMs; ) {
      if (stop.signal.aborted) return;
      // Each replica learns a moment later what the others have accepted: one empty outbox proves nothing yet.
      const waiting = await Promise.all(lives.map((life) => (life === undefined ? undefined : waitingAt(life))));
      if (waiting.some((one) => one !== 0)) emptySince = undefined;
      else if (emptySince === undefined) emptySince = performance.now();
      else if (performance.now() - emptySince > heardWithinMs) return;
      await sleep(1_500);
      if (waiting.every((one) => one === 0)) continue;
      if (books.counts.arrived > before) {
        before = books.counts.arrived;
        since = performance.now();
      } else {
        setClock(clockOffsetMs + hour);
      }
    }
    say("forwards are left that are not delivered");
  }

  const report = setInterval(() => {
    const { acknowledged, delivered, duplicates } = books.counts;
    say(
      `${acknowledged} acknowledged, ${delivered} delivered, ${duplicates} twice; ${counts.kills} kills, ` +
        `${counts.powerLosses} power losses, ${counts.fullDisks} full disks, ${counts.clockSteps} clock steps`,
    );
  }, 15_000);
  try {
    await Promise.all(lives.map((_, which) => start(which)));
    const [first] = lives;
    if (first === undefined) throw new Error("no sidecar was started");
    const path = await setUp(first, channels);
    isFurnished = true;
    if (withoutSync) {
      lives[0] = undefined;
      await first.stop();
      await start(0);
    }
    const sending = startSending({
      ...{ books, count, channels, senders, path, signal: stop.signal },
      addressFor: (channel) => {
        const own = lives[channel % lives.length];
        return (own ?? lives.find((life) => life !== undefined))?.data;
      },
    });
    await Promise.all([sending.done, makeTrouble()]);
    await emptyOutbox();
    isOver = true;
    counts.diskErrors += disk?.faults() ?? 0;
    if (stop.signal.aborted) throw stop.signal.reason;
    await Promise.all(lives.map((life) => life?.stop()));
    const { sent, acknowledged, delivered, duplicates, overtaken } = books.counts;
    return {
      ...{ sent, acknowledged, delivered, duplicates, overtaken, ...books.audit(), ...counts, ...sending.counts },
      duplicatesAllowed: perDestination * counts.kills,
      minutes: (performance.now() - began) / minute,
    };
  } finally {
    isOver = true;
    clearInterval(report);
    for (const life of lives) onLog?.(life?.said() ?? "");
    await Promise.all(lives.map((life) => life?.kill()));
    application.close();
    await postgres?.stop();
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  }
}

/** Returns the path of the webhooks' URL. */
async function setUp(life: Life, channels: number): Promise<string> {
  await restOf(life, "POST", "/integrations", {
    unique_key: "calendar",
    provider: "calendar",
    credentials: { type: "OAUTH2", client_id: "client", client_secret: "secret" },
  });
  for (let channel = 0; channel < channels; channel += 1) {
    await Promise.all(
      connectionsOf(channel).map((id) =>
        restOf(life, "POST", "/connections", {
          provider_config_key: "calendar",
          connection_id: id,
          credentials: { type: "OAUTH2", access_token: `token-of-${id}` },
          metadata: { calendarWatchResourceUris: [calendarUri(`shared-${channel}`)] },
        }),
      ),
    );
  }
  const { data } = await restOf(life, "GET", "/integrations/calendar?include=webhook");
  return new URL(data.webhook_url).pathname;
}
