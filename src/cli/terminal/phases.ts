import { type ProgressDisplay, progressOn } from "./progress.ts";
import { type Terminal, write } from "./terminal.ts";

/** Runs the long phases of a command, with a title and progress for each. */
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
