import { fileURLToPath } from "node:url";
import { cores, cpuOfThreads, loadAverage, pinnedTo, pinSelf } from "../proxy-process.ts";
import { reportTrace } from "../tails/report.ts";
import type { Recorded, StoreWrite } from "../tails/turn-probe.ts";
import { delivered } from "./application.ts";
import { type TableWatch, watchTables } from "./compactions.ts";
import { perSecond, seconds, sendOpenly, standing } from "./open-sending.ts";
import { type Receiver, startReceiver } from "./receiver.ts";
import { quantiles, send, sendHard } from "./sending.ts";

interface TraceOptions {
  readonly rounds: number;
  /** The traced build. */
  readonly dist: string | undefined;
  /** One core for the sidecar, the other for senders and applications; otherwise they share both. */
  readonly isPinned: boolean;
}

const probe = fileURLToPath(new URL("write-probe.ts", import.meta.url));
/** Deliveries that wait for a paused application in the last case. */
const waiting = 60_000;

/** The load of `steady`: names what each of the slowest hundred acknowledgements waited for. */
export async function trace(folder: string, { rounds, dist, isPinned }: TraceOptions): Promise<void> {
  if (isPinned) pinSelf();
  const command = isPinned ? pinnedTo(cores.candidate) : [];
  const receiver = await startReceiver({ name: "webhooks", folder, dist, command, loaded: probe });
  const tables = watchTables(receiver.store);
  const traced = (title: string, asked: TracedCase["asked"]) => once(receiver, { title, asked, tables });
  try {
    for (let times = 0; times < 2; times += 1) await sendOpenly(receiver, perSecond * seconds);
    for (let round = 0; round < rounds; round += 1) await traced("nothing waits", "begin");
    await traced("nothing waits, with samples", "sample");
    await fillOutbox(receiver);
    await traced(`${waiting} deliveries wait`, "begin");
    await traced(`${waiting} deliveries wait, with samples`, "sample");
  } finally {
    tables.close();
    await receiver.stop();
  }
}

async function fillOutbox(receiver: Receiver): Promise<void> {
  await send(receiver, receiver.paths.idle, { senders: 1, count: 1 });
  for (let sent = 0; sent < waiting; ) {
    sent += (await sendHard(receiver, receiver.paths.idle, { senders: 64, count: waiting })).sent;
  }
}

interface TracedCase {
  readonly title: string;
  readonly asked: "begin" | "sample";
  readonly tables: TableWatch;
}

async function once(receiver: Receiver, { title, asked, tables }: TracedCase): Promise<void> {
  const { sidecar, application } = receiver;
  const count = perSecond * seconds;
  const got = (await application.say()).got["/fast"] ?? 0;
  const { requests } = await sendOpenly(receiver, count, () => sidecar.ask(asked));
  const recorded = await sidecar.ask<Recorded>("end");
  await delivered(application, got + standing + count);
  const threads = cpuOfThreads(sidecar.pid);
  say(`\n${perSecond} webhooks/s, ${title}; load average ${loadAverage()}`);
  reportTrace(
    { requests, perSecond, ...quantiles(requests.map(({ tookMs }) => tookMs)) },
    { ...recorded, writes: withCompactions(recorded, tables.periods()) },
  );
  say(`CPU ms by thread since the start: ${[...threads].map(([name, ms]) => `${name} ${ms.toFixed(0)}`).join(", ")}`);
}

function withCompactions({ writes, wallMs }: Recorded, compactions: ReturnType<TableWatch["periods"]>): StoreWrite[] {
  return writes.map(({ from, until }) => ({
    from,
    until,
    isCompacting: compactions.some((one) => one.from < until + wallMs && one.until > from + wallMs),
  }));
}

const say = (line: string) => void process.stdout.write(`${line}\n`);
