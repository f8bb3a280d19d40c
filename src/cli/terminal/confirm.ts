import { createInterface } from "node:readline";
import type { Command } from "commander";
import { CommandError } from "./command-error.ts";
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

export interface YesOption {
  readonly yes?: boolean;
}

export const withYes = (command: Command): Command => command.option("-y, --yes", "do not ask for confirmation");

/** Asks a person before something is deleted. Without a terminal, the command itself is the decision. */
export async function requireYes(terminal: Terminal, question: string, yes = false): Promise<void> {
  if (yes || terminal.canAsk !== true || !terminal.isTerminal) return;
  if (!(await confirmed(terminal, question))) throw new CommandError("cancelled", "nothing was changed");
}
