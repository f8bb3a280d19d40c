import { hash } from "node:crypto";

/**
 * The books of the loss run: what was sent, acknowledged and received. Notification `n` is number `n / channels + 1` of
 * channel `n % channels`, and a channel watches a URI that one or more connections list.
 */
export interface Books {
  sent(n: number): void;
  acknowledged(n: number): void;
  /**
   * Called for each received delivery, whatever the response. Returns the argument of `delivered`, if it is a known
   * delivery.
   */
  arrived(forward: Arrived): Delivery | undefined;
  /** The delivery was answered with 200. */
  delivered(delivery: Delivery): void;
  readonly counts: Readonly<Counts>;
  /** Acknowledged notifications that are missing, and all other mistakes, in sentences. */
  audit(): Findings;
}

export interface Arrived {
  readonly webhookId: string;
  readonly body: Uint8Array;
}

export interface Delivery {
  readonly n: number;
  /** The index of the connection within its channel. */
  readonly place: number;
}

interface Counts {
  sent: number;
  acknowledged: number;
  arrived: number;
  delivered: number;
  duplicates: number;
  /** First attempts that came after one of a later notification of the same channel. */
  overtaken: number;
}

export interface Findings {
  readonly lost: readonly string[];
  /** Forwards of nothing that was sent, or that changed from one attempt to another. */
  readonly wrong: readonly string[];
}

interface BooksOptions {
  readonly count: number;
  readonly channels: number;
  /** In order; at most eight. */
  readonly connectionsOf: (channel: number) => readonly string[];
}

export const channelName = (channel: number): string => `channel-${channel}`;

export function createBooks({ count, channels, connectionsOf }: BooksOptions): Books {
  const sent = new Uint8Array(count);
  const acknowledged = new Uint8Array(count);
  /** A bit a place. */
  const delivered = new Uint8Array(count);
  const places = Math.max(...Array.from({ length: channels }, (_, channel) => connectionsOf(channel).length));
  /** For each delivery, the first received content, as a number. */
  const contents = new Float64Array(count * places);
  const webhookIds = new Set<number>();
  /** The highest number that was tried, by channel and place. */
  const highest = new Uint32Array(channels * places);
  const placeOf = Array.from(
    { length: channels },
    (_, channel) => new Map(connectionsOf(channel).map((id, i) => [id, i])),
  );
  const counts: Counts = { sent: 0, acknowledged: 0, arrived: 0, delivered: 0, duplicates: 0, overtaken: 0 };
  const wrong: string[] = [];

  const at = (n: number, place: number) => n * places + place;
  const nameOf = (n: number) => `${channelName(n % channels)} number ${Math.floor(n / channels) + 1}`;

  function find(body: Uint8Array): Delivery | undefined {
    const envelope = JSON.parse(Buffer.from(body).toString()) as Readonly<Record<string, unknown>>;
    const payload = envelope["payload"] as Readonly<Record<string, string>>;
    const [, channelText = ""] = /^channel-(\d+)$/.exec(payload["x-cal-channel-id"] ?? "") ?? [];
    const channel = Number(channelText);
    const n = (Number(payload["x-cal-message-number"]) - 1) * channels + channel;
    const place = placeOf[channel]?.get(String(envelope["connectionId"]));
    return sent[n] === 1 && place !== undefined ? { n, place } : undefined;
  }

  return {
    counts,
    sent(n) {
      counts.sent += 1 - (sent[n] ?? 0);
      sent[n] = 1;
    },
    acknowledged(n) {
      counts.acknowledged += 1 - (acknowledged[n] ?? 0);
      acknowledged[n] = 1;
    },
    arrived({ webhookId, body }) {
      counts.arrived += 1;
      const found = find(body);
      if (found === undefined) {
        wrong.push(`${webhookId} is of nothing that was sent: ${Buffer.from(body).toString().slice(0, 300)}`);
        return undefined;
      }
      const { n, place } = found;
      const content = numberOf(Buffer.concat([Buffer.from(`${webhookId}\n`), body]));
      const before = contents[at(n, place)];
      if (before === 0) {
        contents[at(n, place)] = content;
        const id = numberOf(Buffer.from(webhookId));
        if (webhookIds.has(id)) wrong.push(`${webhookId} is the id of two forwards, one of them of ${nameOf(n)}`);
        webhookIds.add(id);
        const lane = (n % channels) * places + place;
        if (n < (highest[lane] ?? 0)) counts.overtaken += 1;
        else highest[lane] = n;
      } else if (before !== content) {
        wrong.push(`${nameOf(n)} came again for place ${place} with another id or body: ${webhookId}`);
      }
      return found;
    },
    delivered({ n, place }) {
      const bit = 1 << place;
      const held = delivered[n] ?? 0;
      if ((held & bit) === 0) counts.delivered += 1;
      else counts.duplicates += 1;
      delivered[n] = held | bit;
    },
    audit() {
      const lost: string[] = [];
      for (let n = 0; n < count; n += 1) {
        if (acknowledged[n] === 0) continue;
        for (const [place, id] of connectionsOf(n % channels).entries()) {
          if (((delivered[n] ?? 0) & (1 << place)) === 0) lost.push(`${nameOf(n)} for ${id}`);
        }
      }
      return { lost, wrong };
    },
  };
}

/** 48 bits, never 0: a million of them are numbers and not strings, to save memory. */
function numberOf(bytes: Uint8Array): number {
  return hash("sha1", bytes, "buffer").readUIntBE(0, 6) + 1;
}
