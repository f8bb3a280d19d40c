import { setTimeout as sleep } from "node:timers/promises";
import { type Life, restOf } from "../loss/service.ts";

/** Writes metadata through each broker all the time: what was acknowledged must stay, and shows when writes work. */
export interface MetadataWriting {
  /** The time of the first success of each broker that began after this moment; undefined: none yet. */
  backSince(moment: number): readonly (number | undefined)[];
  /** Writes so far that were not acknowledged. */
  refused(): number;
  /** What they were answered, the first ones. */
  readonly refusals: readonly string[];
  stop(): Promise<void>;
  /** Acknowledged writes that are gone, in sentences; the rest of the result are counts. */
  audit(): Promise<{ readonly acknowledged: number; readonly refused: number; readonly lost: readonly string[] }>;
}

const pauseMs = 100;
const keptSuccesses = 5_000;
const keptRefusals = 20;

type Door = Pick<Life, "data">;

interface Writer {
  readonly life: Door;
  readonly id: string;
  sent: number;
  acknowledged: number;
  refused: number;
  /** When each success began and ended, the latest ones. */
  readonly successes: { readonly from: number; readonly at: number }[];
}

export async function startMetadataWriting(lives: readonly Door[]): Promise<MetadataWriting> {
  const stopping = new AbortController();
  const writers: Writer[] = lives.map((life, i) => ({
    ...{ life, id: `metadata-${i + 1}`, sent: 0, acknowledged: 0, refused: 0, successes: [] },
  }));
  const refusals: string[] = [];
  const [first] = lives;
  if (first === undefined) throw new Error("nobody to write through");
  for (const { id } of writers) {
    const credentials = { type: "API_KEY", apiKey: `key-of-${id}` };
    await restOf(first, "POST", "/connections", { provider_config_key: "keyed", connection_id: id, credentials });
  }

  async function write(writer: Writer): Promise<void> {
    const { life, id, successes } = writer;
    while (!stopping.signal.aborted) {
      writer.sent += 1;
      const from = performance.now();
      try {
        const body = { provider_config_key: "keyed", connection_id: id, metadata: { number: writer.sent } };
        await restOf(life, "PATCH", "/connections/metadata", body);
        writer.acknowledged = writer.sent;
        successes.push({ from, at: performance.now() });
        if (successes.length > keptSuccesses) successes.shift();
      } catch (error) {
        writer.refused += 1;
        if (refusals.length < keptRefusals) refusals.push(reasonOf(error));
      }
      await sleep(pauseMs);
    }
  }

  const writing = Promise.all(writers.map(write));
  const sum = (of: (writer: Writer) => number) => writers.reduce((all, writer) => all + of(writer), 0);
  return {
    refusals,
    refused: () => sum((one) => one.refused),
    backSince: (moment) => writers.map(({ successes }) => successes.find(({ from }) => from > moment)?.at),
    async stop() {
      stopping.abort();
      await writing;
    },
    async audit() {
      const lost: string[] = [];
      for (const { id, acknowledged, sent } of writers) {
        const path = `/connections/${id}?provider_config_key=keyed`;
        const found = (await restOf(first, "GET", path)).metadata.number;
        // A write without an answer may have been made.
        if (found < acknowledged || found > sent)
          lost.push(`${id} is ${found}, acknowledged ${acknowledged} of ${sent}`);
      }
      return { acknowledged: sum((one) => one.sent - one.refused), refused: sum((one) => one.refused), lost };
    },
  };
}

function reasonOf(error: unknown): string {
  const { message, cause } = error as Error;
  return cause instanceof Error ? `${message}: ${cause.message}` : message;
}
