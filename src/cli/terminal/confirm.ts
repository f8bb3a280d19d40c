import { createInterface } from "node:readline";
import { escapeControl } from "./escape-control.ts";
import type { Terminal } from "./terminal.ts";
import { write } from "./terminal.ts";

/** Asks the user. Anything except yes means no, including no input. */
export async function confirmed({ stdin, stderr, signal }: Terminal, question: string): Promise<boolean> {
  await write(stderr, `${escapeControl(question)} [y/N] `);
  const lines = createInterface({ input: stdin, signal });
  try {
    for await (const line of lines) return /^y(es)?$/i.test(line.trim());
    return false;
  } finally {
    lines.close();
  }
}
