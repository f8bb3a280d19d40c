import { Agent, request } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { calendarUri } from "../../support/sidecar/receiving.ts";
import { type Books, channelName } from "./books.ts";

interface SendersOptions {
  readonly books: Books;
  readonly count: number;
  readonly channels: number;
  /** The number of concurrent senders. Each has its own channels, and sends in order within a channel. */
  readonly senders: number;
  /** The current webhook address of this channel; it changes with each start. Undefined: none at the moment. */
  readonly addressFor: (channel: number) => string | undefined;
  readonly path: string;
  readonly signal: AbortSignal;
  /** Each sender's, after a webhook that was acknowledged. */
  readonly pauseMs?: number;
}

export interface Sending {
  readonly counts: { refused: number; misled: number; broken: number };
  readonly done: Promise<void>;
}

/** Providers wait for half a minute or an hour. These here are in a hurry, so that a run has an end. */
const repeatAfterMs = 50;
const answerWithinMs = 30_000;

/** Sends everything, each until it is acknowledged, as a provider does. */
export function startSending(options: SendersOptions): Sending {
  const { books, count, channels, senders, addressFor, path, signal, pauseMs = 0 } = options;
  const agent = new Agent({ keepAlive: true, maxSockets: senders });
  const counts = { refused: 0, misled: 0, broken: 0 };

  /** The status; 0 when no answer came. */
  function post(address: string, n: number): Promise<number> {
    const channel = n % channels;
    return new Promise((resolve) => {
      const asked = request(`${address}${path}`, {
        method: "POST",
        agent,
        signal: AbortSignal.timeout(answerWithinMs),
        headers: {
          "content-length": 0,
          "x-cal-channel-id": channelName(channel),
          "x-cal-resource-id": `resource-${channel}`,
          "x-cal-resource-uri": calendarUri(`shared-${channel}`),
          "x-cal-resource-state": "exists",
          "x-cal-message-number": String(Math.floor(n / channels) + 1),
        },
      });
      asked.on("response", (response) => {
        const { statusCode = 0 } = response;
        response.resume();
        response.on("end", () => resolve(statusCode));
        // For a provider only the status counts, and it has arrived.
        response.on("error", () => resolve(statusCode));
      });
      asked.on("error", () => resolve(0));
      asked.end();
    });
  }

  async function send(n: number): Promise<void> {
    books.sent(n);
    while (!signal.aborted) {
      const address = addressFor(n % channels);
      const status = address === undefined ? 0 : await post(address, n);
      if (status === 200) {
        books.acknowledged(n);
        if (pauseMs > 0) await sleep(pauseMs * (0.5 + Math.random()));
        return;
      }
      // Any other status does not tell a provider to retry.
      if (status !== 0 && status !== 503) counts.misled += 1;
      if (status === 503) counts.refused += 1;
      else if (address !== undefined) counts.broken += 1;
      await sleep(repeatAfterMs * (0.5 + Math.random()));
    }
  }

  async function run(sender: number): Promise<void> {
    for (let first = 0; first < count; first += channels) {
      for (let channel = sender; channel < channels; channel += senders) {
        if (signal.aborted) return;
        if (first + channel < count) await send(first + channel);
      }
    }
  }

  const done = Promise.all(Array.from({ length: senders }, (_, sender) => run(sender)));
  return { counts, done: done.then(() => agent.destroy()) };
}
