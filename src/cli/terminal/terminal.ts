import { once } from "node:events";
import type { Readable, Writable } from "node:stream";

/** Everything outside that the command line uses: the real environment of the process, or one made by a test. */
export interface Terminal {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly stdin: Readable;
  readonly stdout: Writable;
  readonly stderr: Writable;
  /** A person is watching: output may be colored and redrawn. */
  readonly isTerminal: boolean;
  /** The width of the terminal, if the output goes to one. */
  readonly columns?: number | undefined;
  /** Input comes from a person, who can answer questions. */
  readonly canAsk?: boolean;
  /** Aborts when the user interrupts. */
  readonly signal: AbortSignal;
  /** Runs a program with this terminal, and returns its exit code. Undefined where there is no process for it. */
  readonly runProgram?: (program: ChildProgram) => Promise<number>;
}

/** A program to run, with its whole environment. */
export interface ChildProgram {
  readonly command: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
}

/** Writes text, and waits for a slow reader, so that unread output does not fill memory. */
export async function write(stream: Writable, text: string | Uint8Array): Promise<void> {
  if (stream.destroyed || stream.write(text)) return;
  // A reader that leaves (`| head`) never drains.
  const left = new AbortController();
  const leave = () => left.abort();
  stream.once("close", leave);
  try {
    await once(stream, "drain", { signal: left.signal });
  } catch {
    /* The owner of the stream handles its error; there is nothing left to wait for. */
  } finally {
    stream.off("close", leave);
  }
}
