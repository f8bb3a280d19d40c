import { openLine } from "../proxy-load.ts";
import type { Logged } from "../tails/request-log.ts";
import { delivered } from "./application.ts";
import type { Receiver } from "./receiver.ts";
import { notification, portOf } from "./sending.ts";

export const perSecond = 2_000;
export const seconds = 5;
/** Enough connections for an eighth of a second without acknowledgements. */
export const standing = 256;

/** Schedules this number of requests, each when it is due. */
export async function openly(count: number, ask: (due: number) => void): Promise<void> {
  const since = performance.now();
  for (let asked = 0; asked < count; ) {
    const due = Math.min(count, ((performance.now() - since) / 1_000) * perSecond);
    for (; asked < due; asked += 1) ask(since + (asked * 1_000) / perSecond);
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
}

interface OpenlySent {
  readonly requests: readonly Logged[];
  /** Requests that found no free connection. */
  readonly late: number;
  readonly endedAt: number;
}

/**
 * Times count from when a webhook was due, so that a queued one counts as late. Connections are kept, like those of
 * providers that notify often: Node accepts one new connection per tick, and webhooks due in the meantime would wait
 * for it.
 */
export async function sendOpenly(
  receiver: Receiver,
  count: number,
  onWarm?: () => Promise<unknown>,
): Promise<OpenlySent> {
  const { application, paths } = receiver;
  const path = paths.fast;
  const before = (await application.say()).got["/fast"] ?? 0;
  const free = await Promise.all(Array.from({ length: standing }, () => openLine(portOf(receiver))));
  for (const line of free) await line.ask(notification(path));
  await delivered(application, before + standing);
  await onWarm?.();
  const all = [...free];
  const requests: Logged[] = [];
  const underWay: Promise<void>[] = [];
  let late = 0;
  const askOne = async (due: number) => {
    let line = free.pop();
    if (line === undefined) {
      late += 1;
      line = await openLine(portOf(receiver));
      all.push(line);
    }
    const lateMs = performance.now() - due;
    await line.ask(notification(path));
    requests.push({ sentAtMs: performance.timeOrigin + due, tookMs: performance.now() - due, lateMs });
    free.push(line);
  };
  await openly(count, (due) => underWay.push(askOne(due)));
  await Promise.all(underWay);
  for (const { socket } of all) socket.destroy();
  return { requests, late, endedAt: performance.timeOrigin + performance.now() };
}
