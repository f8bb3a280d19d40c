import { setTimeout as sleep } from "node:timers/promises";
import { seeded } from "../../support/runner/seeded.ts";
import { startMetadataWriting } from "../failover/metadata.ts";
import { type RenewalFindings, startRenewals } from "../failover/renewals.ts";
import { connectionsOf, emptyOutbox, setUpFleet } from "../failover/run.ts";
import { calm, startLossApplication } from "../loss/application.ts";
import { createBooks } from "../loss/books.ts";
import { startSending } from "../loss/senders.ts";
import { type Fleet, startFleet } from "./fleet.ts";

/** Three brokers and their edges are restarted one after another, and one broker is killed, under all kinds of work. */
export interface RestartsOptions {
  readonly edges: number;
  /** How often everything is restarted. */
  readonly rounds: number;
  /** Edges that are restarted in a round. */
  readonly replacedEdges: number;
  readonly senders: number;
  readonly accessTokenS: number;
  /** Between two calls of a connection through one edge, and between two webhooks of a sender, on average. */
  readonly pauseMs: number;
  readonly say: (line: string) => void;
}

export interface RestartsOutcome {
  readonly phases: readonly Phase[];
  /** Webhooks. */
  readonly acknowledged: number;
  readonly delivered: number;
  readonly duplicates: number;
  readonly overtaken: number;
  readonly lost: readonly string[];
  readonly wrong: readonly string[];
  readonly renewals: RenewalFindings;
  readonly metadata: { readonly acknowledged: number; readonly refused: number; readonly lost: readonly string[] };
  /** Processes that ended by themselves, or badly. */
  readonly ended: readonly string[];
  readonly minutes: number;
}

/** What callers saw while one thing happened. */
export interface Phase {
  readonly what: "restart of brokers" | "restart of edges" | "kill of a broker";
  readonly calls: number;
  /** Calls to providers with another answer than 200. */
  readonly failedCalls: number;
  /** Webhooks with another answer than 200, and repeated by their sender. */
  readonly failedWebhooks: number;
  readonly failedWrites: number;
  /** What the writers were answered. */
  readonly refusals: readonly string[];
}

const maxWebhooks = 2_000_000;
const renewingConnections = 4;
const writersAtMost = 4;
/** Between two events, so that everything goes on for a while. */
const calmMs = 500;

export async function runRestarts(options: RestartsOptions): Promise<RestartsOutcome> {
  const { edges: count, senders, accessTokenS, pauseMs, say } = options;
  const began = performance.now();
  const channels = Math.max(24, senders);
  const books = createBooks({ count: maxWebhooks, channels, connectionsOf });
  const application = await startLossApplication({ books, random: seeded(1), temper: calm });
  let fleet: Fleet | undefined;
  try {
    fleet = await startFleet({ brokers: 3, edges: count, accessTokenS, forwardUrl: application.url });
    const { brokers, edges, sandbox, wrong: ended } = fleet;
    const [first] = brokers;
    if (first === undefined) throw new Error("no broker was started");
    const path = await setUpFleet(first, channels);
    say(`${brokers.length} brokers and ${edges.length} edges run`);

    const stop = new AbortController();
    const renewals = await startRenewals({
      ...{ lives: edges, sandbox, connections: renewingConnections, accessTokenS, pauseMs },
    });
    const metadata = await startMetadataWriting(edges.slice(0, writersAtMost));
    const sending = startSending({
      ...{ books, count: maxWebhooks, channels, senders, path, signal: stop.signal, pauseMs },
      addressFor: (channel) => edges[channel % edges.length]?.data,
    });
    const work = { renewals, metadata, sending };
    const phases: Phase[] = [];
    for (let round = 0; round < options.rounds; round += 1) {
      for (const phase of await restartAll(fleet, options.replacedEdges, work)) {
        phases.push(phase);
        say(`${describePhase(phase)}; ${books.counts.acknowledged} webhooks acknowledged`);
      }
    }
    stop.abort();
    await Promise.all([renewals.stop(), metadata.stop(), sending.done]);
    await emptyOutbox(brokers);
    const { acknowledged, delivered, duplicates, overtaken } = books.counts;
    return {
      ...{ phases, acknowledged, delivered, duplicates, overtaken, ...books.audit() },
      ...{ renewals: renewals.audit(), metadata: await metadata.audit(), ended: [...ended] },
      minutes: (performance.now() - began) / 60_000,
    };
  } finally {
    await fleet?.close();
    application.close();
  }
}

interface Work {
  readonly renewals: Awaited<ReturnType<typeof startRenewals>>;
  readonly metadata: Awaited<ReturnType<typeof startMetadataWriting>>;
  readonly sending: ReturnType<typeof startSending>;
}

async function restartAll({ brokers, edges }: Fleet, replacedEdges: number, work: Work): Promise<readonly Phase[]> {
  const during = async (what: Phase["what"], act: () => Promise<void>): Promise<Phase> => {
    const before = tally(work);
    const known = work.metadata.refusals.length;
    await act();
    await sleep(calmMs);
    const after = tally(work);
    const since = (name: keyof typeof before) => after[name] - before[name];
    return {
      what,
      ...{ calls: since("calls"), failedCalls: since("failedCalls") },
      ...{ failedWebhooks: since("failedWebhooks"), failedWrites: since("failedWrites") },
      refusals: work.metadata.refusals.slice(known),
    };
  };
  return [
    await during("restart of brokers", async () => {
      for (const broker of brokers) await broker.replace();
    }),
    await during("restart of edges", async () => {
      for (const edge of edges.slice(0, replacedEdges)) await edge.replace();
    }),
    await during("kill of a broker", async () => {
      const broker = brokers.at(-1);
      await broker?.kill();
      await sleep(calmMs);
      await broker?.start();
    }),
  ];
}

function tally({ renewals, metadata, sending }: Work) {
  const { calls } = renewals.audit();
  const all = Object.values(calls).reduce((sum, one) => sum + one, 0);
  const { refused, misled, broken } = sending.counts;
  return {
    calls: all,
    failedCalls: all - (calls["200"] ?? 0),
    failedWebhooks: refused + misled + broken,
    failedWrites: metadata.refused(),
  };
}

export const describePhase = ({ what, calls, failedCalls, failedWebhooks, failedWrites, refusals }: Phase): string =>
  `${what}: of ${calls} calls ${failedCalls} failed; ${failedWebhooks} webhooks and ${failedWrites} writes were repeated` +
  refusals.map((refusal) => `\n  ${refusal}`).join("");
