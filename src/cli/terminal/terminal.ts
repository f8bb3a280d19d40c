import { once } from "node:events";
import type { Readable, Writable } from "node:stream";

/** Everything outside of the command line that it may touch. The process gives the real one, a test its own. */
export interface Terminal {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly stdin: Readable;
  readonly stdout: Writable;
  readonly stderr: Writable;
  /** A person watches: what is written may be coloured and redrawn. */
  readonly isTerminal: boolean;
  /** Aborted when the person has had enough. */
  readonly signal: AbortSignal;
}

/** Writes, and waits while the reader is slower than we are, so that memory does not fill with what is unread. */
export async function write(stream: Writable, text: string | Uint8Array): Promise<void> {
  if (stream.destroyed || stream.write(text)) return;
  // A reader that leaves (`| head`) never drains.
  const left = new AbortController();
  const leave = () => left.abort();
  stream.once("close", leave);
  try {
    await once(stream, "drain", { signal: left.signal });
  } catch {
    /* Whoever opened the stream hears of its error; there is nothing left to wait for here. */
  } finally {
    stream.off("close", leave);
  }
}
