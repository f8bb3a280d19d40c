import { type ProgressDisplay, progressOn } from "./progress.ts";
import { type Terminal, write } from "./terminal.ts";

/** A command that does several long things one after the other: says which, and how far each has come. */
export type Phases = <T>(title: string, run: (progress: ProgressDisplay) => Promise<T>) => Promise<T>;

export const createPhases =
  (terminal: Terminal, { quiet }: { readonly quiet: boolean }): Phases =>
  async (title, run) => {
    if (!quiet) await write(terminal.stderr, `${title}\n`);
    const progress = progressOn(terminal, { quiet });
    try {
      return await run(progress);
    } finally {
      progress.end();
    }
  };
