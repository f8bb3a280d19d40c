import { setTimeout as sleep } from "node:timers/promises";
import type { PatroniCluster } from "../../support/postgres/patroni.ts";
import type { MetadataWriting } from "./metadata.ts";

/** `frozen`: the machine stops without an end, and goes on once another one is the primary. */
export type FailoverKind = "machine" | "postgres" | "frozen";

export interface Failover {
  readonly what: FailoverKind;
  readonly from: string;
  readonly to: string;
  /** Milliseconds from the kill until a server accepts writes again. */
  readonly promotedMs: number;
  /** Milliseconds from the kill until each broker has written metadata again. */
  readonly writesBackMs: readonly number[];
}

interface FailOverOptions {
  readonly cluster: PatroniCluster;
  readonly metadata: MetadataWriting;
  readonly what: FailoverKind;
}

const patienceMs = 120_000;

/** Kills the primary with -9 or freezes it, waits for writes, and lets the machine run again, as a standby. */
export async function failOver({ cluster, metadata, what }: FailOverOptions): Promise<Failover> {
  await cluster.whole();
  const dead = await cluster.primary();
  if (what === "frozen") dead.freeze();
  else dead.kill(what);
  const killedAt = performance.now();
  const next = await cluster.primary();
  const promotedMs = Math.round(performance.now() - killedAt);
  for (;;) {
    const back = metadata.backSince(killedAt).map((at) => at && Math.round(at - killedAt));
    if (back.every((ms) => ms !== undefined)) {
      if (what === "machine") dead.start();
      if (what === "frozen") dead.thaw();
      return { what, from: dead.name, to: next.name, promotedMs, writesBackMs: back };
    }
    if (performance.now() - killedAt > patienceMs) throw new Error(`writes are not back: ${back.join()}`);
    await sleep(50);
  }
}
