import type { StopRun } from "./limit-watch.ts";

/** Timers of a run, by the ids that the sandbox gives them. */
export interface RunTimers {
  readonly count: number;
  set(id: string, ms: string): undefined;
  clear(id: string): undefined;
  clearAll(): void;
}

/** The sandbox allows 1,000; more mean that the script has changed it. */
const maxTimers = 10_000;

/** `fire` runs when a timer is due; the timer is already removed then. */
export function createRunTimers(stop: StopRun, fire: (id: string) => void): RunTimers {
  const timers = new Map<string, NodeJS.Timeout>();

  return {
    get count() {
      return timers.size;
    },
    set(id, ms) {
      if (timers.size >= maxTimers) {
        stop("busy", "set more than 10,000 timers");
        return undefined;
      }
      const due = () => {
        timers.delete(id);
        fire(id);
      };
      timers.set(id, setTimeout(due, Number(ms)));
    },
    clear(id) {
      clearTimeout(timers.get(id));
      timers.delete(id);
    },
    clearAll() {
      for (const timer of timers.values()) clearTimeout(timer);
      timers.clear();
    },
  };
}
