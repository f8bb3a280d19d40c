import { GrowingBytes } from "../../base/growing-bytes.ts";

const lineFeed = 0x0a;
const carriageReturn = 0x0d;

/** Splits an event stream into its events, each with the empty line that ends it. */
export class EventSplitter {
  readonly #most: number;
  #held = new GrowingBytes();
  #length = 0;
  #isLineEmpty = true;
  #wasReturn = false;

  /** `most`: bytes of an event. */
  constructor(most: number) {
    this.#most = most;
  }

  /** Returns the events that these bytes end; undefined if an event is too large. */
  push(bytes: Buffer): Buffer[] | undefined {
    const events: Buffer[] = [];
    let from = 0;
    for (let at = 0; at < bytes.length; at += 1) {
      const byte = bytes[at];
      const endsReturn = byte === lineFeed && this.#wasReturn;
      this.#wasReturn = byte === carriageReturn;
      if (endsReturn) {
        // The second half of a line end, after an event that the first half has ended: readers wait for it.
        if (at === from && this.#length === 0) {
          events.push(Buffer.from(bytes.subarray(at, at + 1)));
          from = at + 1;
        }
      } else if (byte === lineFeed || byte === carriageReturn) {
        if (this.#isLineEmpty) {
          events.push(this.#take(bytes.subarray(from, at + 1)));
          from = at + 1;
        }
        this.#isLineEmpty = true;
      } else this.#isLineEmpty = false;
    }
    const rest = bytes.subarray(from);
    if (this.#length + rest.length > this.#most) return undefined;
    this.#held.add(rest);
    this.#length += rest.length;
    return events;
  }

  /** Returns what came after the last event. */
  end(): Buffer {
    return this.#take(new Uint8Array());
  }

  #take(last: Uint8Array): Buffer {
    this.#held.add(last);
    const event = Buffer.from(this.#held.bytes);
    this.#held = new GrowingBytes();
    this.#length = 0;
    return event;
  }
}

/** Returns an event with other data, if `change` returns some for its data; else the event as it is. */
export function changedEvent(event: Buffer, change: (data: string) => string | undefined): Buffer {
  // Most events cannot be the one that is looked for, and are not read.
  if (!event.includes("data")) return event;
  const [whole = "", ...lines] = event.toString().split(/\r\n|\n|\r/);
  // A byte order mark may come before the first line of a stream.
  const all = [whole.replace(/^\ufeff/, ""), ...lines];
  const data = all.filter(isData).map((line) => line.slice(5).replace(/^ /, ""));
  const changed = data.length === 0 ? undefined : change(data.join("\n"));
  if (changed === undefined) return event;
  const others = all.filter((line) => !isData(line) && line !== "");
  return Buffer.from([...others, `data: ${changed}`, "", ""].join("\n"));
}

/** A line without a colon is a field without a value. */
const isData = (line: string): boolean => line.startsWith("data:") || line === "data";
