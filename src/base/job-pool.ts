/** Jobs that run at the same time: bounded in all and in each group, and one at a time of each key. */
export interface JobPool {
  readonly size: number;
  has(key: string): boolean;
  mayBegin(job: Job): boolean;
  /** Runs a job. `run` handles its own errors. */
  begin(job: Job, run: () => Promise<void>): void;
  /** Holds back the next job of this key for a while: its last one failed. */
  pause(key: string): void;
  /** Resolves when one of the running jobs has ended; at once if none runs. */
  oneEnded(): Promise<void>;
  /** Resolves when all jobs that run now have ended. */
  allEnded(): Promise<void>;
}

export interface Job {
  readonly key: string;
  readonly group: string;
}

interface JobPoolOptions {
  readonly most: () => number;
  readonly mostOfGroup: () => number;
  readonly pauseMs: number;
  /** A job has ended, and there may be room for another. */
  readonly onEnded: () => void;
}

export function createJobPool({ most, mostOfGroup, pauseMs, onEnded }: JobPoolOptions): JobPool {
  const running = new Map<string, Promise<void>>();
  const groups = new Map<string, number>();
  /** When the pause of a key ends, on the monotonic clock. */
  const paused = new Map<string, number>();

  function countGroup(group: string, by: 1 | -1): void {
    const count = (groups.get(group) ?? 0) + by;
    if (count === 0) groups.delete(group);
    else groups.set(group, count);
  }

  return {
    get size() {
      return running.size;
    },
    has: (key) => running.has(key),
    mayBegin: ({ key, group }) =>
      running.size < most() &&
      !running.has(key) &&
      (groups.get(group) ?? 0) < mostOfGroup() &&
      (paused.get(key) ?? 0) <= performance.now(),
    begin({ key, group }, run) {
      paused.delete(key);
      countGroup(group, 1);
      const ended = run().finally(() => {
        running.delete(key);
        countGroup(group, -1);
        onEnded();
      });
      running.set(key, ended);
    },
    pause: (key) => void paused.set(key, performance.now() + pauseMs),
    async oneEnded() {
      if (running.size > 0) await Promise.race(running.values());
    },
    async allEnded() {
      await Promise.allSettled(running.values());
    },
  };
}
