import { openLine } from "../proxy-load.ts";
import { quantile } from "../sidecar-process.ts";
import { hasWrk, runWrk } from "../wrk.ts";
import type { Receiver } from "./receiver.ts";

export const uriOf = (calendar: string): string => `https://calendar.example/v3/calendars/${calendar}/events?alt=json`;

let messages = 0;
/** The next notification of a channel, in wire format. */
export function notification(path: string, calendar = "one"): string {
  messages += 1;
  return [
    `POST ${path} HTTP/1.1`,
    "host: 127.0.0.1",
    `x-cal-channel-id: channel-${messages % 64}`,
    "x-cal-resource-id: resource-1",
    `x-cal-resource-uri: ${uriOf(calendar)}`,
    "x-cal-resource-state: exists",
    `x-cal-message-number: ${messages}`,
    "content-length: 0\r\n\r\n",
  ].join("\r\n");
}

export const portOf = ({ sidecar }: Receiver): number => Number(new URL(sidecar.data).port);

/** Reserves numbers of messages; returns the first of them. */
export function reserveMessages(count: number): number {
  const from = messages;
  messages += count;
  return from;
}

export interface Sending {
  readonly senders: number;
  readonly count: number;
}

const hardForSeconds = 2;

/**
 * Sends as fast as possible, with a program that takes little of the two cores; without wrk, a fixed number from here.
 */
export async function sendHard(receiver: Receiver, path: string, { senders, count }: Sending) {
  if (!hasWrk) return { sent: count, ...(await send(receiver, path, { senders, count })) };
  const port = portOf(receiver);
  const asking = { port, connections: senders, seconds: hardForSeconds, folder: receiver.folder };
  const text = notification(path)
    .replace(`channel-${messages % 64}`, "channel-%d")
    .replace(`: ${messages}\r`, ": %d\r");
  const script = `local at, text = ${messages}, ${JSON.stringify(text)}
request = function()
  at = at + 1
  return string.format(text, at % 64, at)
end`;
  const { requests, seconds, p50Ms, p99Ms, failed } = await runWrk({ ...asking, script });
  if (failed > 0) throw new Error(`${failed} of ${requests} were not acknowledged`);
  // Requests in progress at the end have numbers too.
  messages += requests + senders;
  return { sent: requests, perSecond: requests / seconds, p50Ms, p99Ms };
}

export async function send(receiver: Receiver, path: string, { senders, count }: Sending) {
  const lines = await Promise.all(Array.from({ length: senders }, () => openLine(portOf(receiver))));
  const times: number[] = [];
  let left = count;
  const since = performance.now();
  await Promise.all(
    lines.map(async (line) => {
      while (left > 0) {
        left -= 1;
        const asked = performance.now();
        await line.ask(notification(path));
        times.push(performance.now() - asked);
      }
    }),
  );
  const seconds = (performance.now() - since) / 1_000;
  for (const { socket } of lines) socket.destroy();
  return { perSecond: count / seconds, ...quantiles(times) };
}

export function quantiles(times: readonly number[]) {
  const sorted = times.toSorted((a, b) => a - b);
  return { p50Ms: quantile(sorted, 0.5), p99Ms: quantile(sorted, 0.99) };
}
