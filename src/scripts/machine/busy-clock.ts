/**
 * Counts the CPU time that a machine uses between two waits. The time in which other threads and processes have the
 * CPU does not count: on a busy host, a script must not fail because it had to wait for its turn.
 */
export interface BusyClock {
  /** Starts at zero: the machine begins to run on this thread. */
  enter(): void;
  /** CPU time of this thread in milliseconds since `enter`. */
  readonly ms: number;
}

export function createBusyClock(): BusyClock {
  let enteredAt = threadCpuMs();
  return {
    enter() {
      enteredAt = threadCpuMs();
    },
    get ms() {
      return threadCpuMs() - enteredAt;
    },
  };
}

function threadCpuMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1_000;
}

/** A monotonic clock shared by all threads. */
export function steadyMs(): bigint {
  return process.hrtime.bigint() / 1_000_000n;
}
