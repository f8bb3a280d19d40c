import { host } from "./port.ts";

/** Maximum number of active timers; more are a bug in the script. */
const maxTimers = 1_000;

interface Timer {
  readonly run: () => void;
  readonly everyMs: number | undefined;
}

const timers = new Map<number, Timer>();
let made = 0;

function start(run: unknown, ms: unknown, args: readonly unknown[], isInterval: boolean): number {
  if (typeof run !== "function") throw new TypeError("the first argument of a timer must be a function");
  if (timers.size >= maxTimers) throw new RangeError(`a script can have at most ${maxTimers} timers at once`);
  const wait = Math.min(Math.max(Number(ms) || 0, isInterval ? 1 : 0), 2 ** 31 - 1);
  made += 1;
  timers.set(made, { run: () => run(...args), everyMs: isInterval ? wait : undefined });
  host("timer", String(made), String(wait));
  return made;
}

export const setTimeout = (run: unknown, ms?: unknown, ...args: unknown[]): number => start(run, ms, args, false);
export const setInterval = (run: unknown, ms?: unknown, ...args: unknown[]): number => start(run, ms, args, true);

export function clear(id: unknown): void {
  if (timers.delete(Number(id))) host("untimer", String(id), "");
}

/** Runs a timer that is due. */
export function fire(id: number): void {
  const timer = timers.get(id);
  if (timer === undefined) return;
  if (timer.everyMs === undefined) timers.delete(id);
  else host("timer", String(id), String(timer.everyMs));
  timer.run();
}
