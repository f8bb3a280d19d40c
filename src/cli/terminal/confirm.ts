import { createInterface } from "node:readline";
import type { Terminal } from "./terminal.ts";
import { write } from "./terminal.ts";
import { visible } from "./visible.ts";

/** Asks the person at the terminal. Anything but a yes is a no, and so is nothing at all. */
export async function confirmed({ stdin, stderr, signal }: Terminal, question: string): Promise<boolean> {
  await write(stderr, `${visible(question)} [y/N] `);
  const lines = createInterface({ input: stdin, signal });
  try {
    for await (const line of lines) return /^y(es)?$/i.test(line.trim());
    return false;
  } finally {
    lines.close();
  }
}
