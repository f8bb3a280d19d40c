import { open, rm } from "node:fs/promises";
import { cpuSeconds } from "../proxy-process.ts";
import { createTable } from "../proxy-table.ts";
import { recordColumn } from "../score/figure.ts";
import { delivered } from "./application.ts";
import { openly, perSecond, seconds, sendOpenly, standing } from "./open-sending.ts";
import { turnOf } from "./receive.ts";
import type { Receiver, WebhooksPart } from "./receiver.ts";
import { quantiles } from "./sending.ts";

const warming = 2;
/** The bytes that a webhook and its delivery add to the store's log. */
const bytesEach = 2_000;

/**
 * An open loop: each webhook is sent when due, whatever became of those before, and deliveries continue. Beside it as
 * many bytes as often are written to a file and synced: no acknowledgement can be faster than the disk. The first ones
 * are not counted, since the program is not compiled yet.
 */
export const steady: WebhooksPart = async (receivers, rounds) => {
  const table = createTable(["p50 ms", "p99 ms", "late", "delivered after ms", "CPU µs each"]);
  for (let round = -warming; round < rounds; round += 1) {
    const disk = quantiles(await diskAlone(receivers[0].folder));
    if (round >= 0) table.note("the disk alone", [disk.p50Ms, disk.p99Ms]);
    for (const receiver of turnOf(receivers, round + warming)) {
      const figures = await once(receiver);
      if (round >= 0) table.note(receiver.name, figures);
    }
  }
  say(`\n${perSecond} a second for ${seconds} s in an open loop, acknowledged, and delivered meanwhile:`);
  say(table.text({ peers: ["the disk alone", "beside"], compared: "p99 ms" }));
  const rows = { own: "webhooks", peers: { "the disk": "the disk alone", beside: "beside" } };
  const name = `webhooks, ${perSecond.toLocaleString("en")}/s delivered, p99 of the acknowledgement`;
  recordColumn(table, { ...rows, name, column: "p99 ms", better: "lower" });
  for (const { name: row } of receivers) say(`${row}, p99 ms by round: ${listOf(table.values(row, "p99 ms"))}`);
};

async function once(receiver: Receiver): Promise<readonly number[]> {
  const { application, sidecar } = receiver;
  const before = (await application.say()).got["/fast"] ?? 0;
  const count = perSecond * seconds;
  const cpu = cpuSeconds(sidecar.pid);
  const { requests, late, endedAt } = await sendOpenly(receiver, count);
  const lastAt = await delivered(application, before + standing + count);
  const each = ((cpuSeconds(sidecar.pid) - cpu) / (standing + count)) * 1e6;
  const { p50Ms, p99Ms } = quantiles(requests.map(({ tookMs }) => tookMs));
  return [p50Ms, p99Ms, late, lastAt - endedAt, each];
}

/** Writes that arrive during a sync share the next one, as in the store. */
async function diskAlone(folder: string): Promise<readonly number[]> {
  const file = await open(`${folder}/disk`, "a");
  const times: number[] = [];
  let waiting: number[] = [];
  let syncing: Promise<void> | undefined;
  async function syncAll(): Promise<void> {
    while (waiting.length > 0) {
      const due = waiting;
      waiting = [];
      await file.write(Buffer.alloc(due.length * bytesEach));
      await file.datasync();
      for (const at of due) times.push(performance.now() - at);
    }
    syncing = undefined;
  }
  const ask = (at: number) => {
    waiting.push(at);
    syncing ??= syncAll();
  };
  await openly(perSecond * seconds, ask);
  await syncing;
  await file.close();
  await rm(`${folder}/disk`);
  return times;
}

const listOf = (values: readonly number[]): string => values.map((value) => value.toFixed(1)).join(", ");
const say = (line: string) => void process.stdout.write(`${line}\n`);
