import { Readable, Writable } from "node:stream";
import type { Terminal } from "../../../src/cli/terminal/terminal.ts";

interface Setting {
  readonly env?: Readonly<Record<string, string>>;
  readonly stdin?: string | Buffer;
  readonly isTerminal?: boolean;
  readonly signal?: AbortSignal;
}

/** A terminal whose screen a test can read. */
export interface MemoryTerminal extends Terminal {
  readonly out: () => string;
  readonly err: () => string;
}

export function memoryTerminal({ env = {}, stdin = "", isTerminal = false, signal }: Setting = {}): MemoryTerminal {
  const stdout = screen();
  const stderr = screen();
  return {
    env,
    stdin: Readable.from([Buffer.from(stdin)]),
    stdout: stdout.stream,
    stderr: stderr.stream,
    isTerminal,
    signal: signal ?? new AbortController().signal,
    out: stdout.text,
    err: stderr.text,
  };
}

function screen() {
  const chunks: string[] = [];
  const stream = new Writable({
    write(chunk, _encoding, done) {
      chunks.push(String(chunk));
      done();
    },
  });
  return { stream, text: () => chunks.join("") };
}
