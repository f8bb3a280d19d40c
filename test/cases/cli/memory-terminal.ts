import { Readable, Writable } from "node:stream";
import type { Terminal } from "../../../src/cli/terminal/terminal.ts";

interface Setting {
  readonly env?: Readonly<Record<string, string>>;
  readonly stdin?: string | Buffer;
  readonly isTerminal?: boolean;
  readonly columns?: number;
  /** The input is a person's answers. */
  readonly canAsk?: boolean;
  readonly signal?: AbortSignal;
}

/** A terminal whose screen a test can read. */
export interface MemoryTerminal extends Terminal {
  readonly out: () => string;
  readonly err: () => string;
}

export function memoryTerminal({
  env = {},
  stdin = "",
  isTerminal = false,
  canAsk = false,
  columns,
  signal,
}: Setting = {}): MemoryTerminal {
  const stdout = screen();
  const stderr = screen();
  return {
    env,
    stdin: Readable.from([Buffer.from(stdin)]),
    stdout: stdout.stream,
    stderr: stderr.stream,
    isTerminal,
    canAsk,
    columns,
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
