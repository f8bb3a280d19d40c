/** Decides how long commits that may wait stay queued for the next other commit, whose write they then share. */
export interface WriteDelay {
  /** A commit was queued. */
  queued(commit: DelayableCommit): void;
  /** Commits were taken from the queue. */
  taken(commits: readonly DelayableCommit[]): void;
  /** Returns whether all queued commits may wait, and another one is expected soon. */
  lasts(queued: number): boolean;
  /** Expects no other commit until one comes. */
  end(): void;
}

interface DelayableCommit {
  readonly mayWait: boolean;
  readonly queuedAt: number;
}

/** Limits of the commits that wait: the time, and their number. */
const mostWaitMs = 4;
const mostWaiting = 16;

/** `onEnd` is called when no other commit came in time. */
export function createWriteDelay(onEnd: () => void): WriteDelay {
  let waiting = 0;
  let timer: NodeJS.Timeout | undefined;
  let lastOtherAt = Number.NEGATIVE_INFINITY;

  function stopTimer(): void {
    clearTimeout(timer);
    timer = undefined;
  }

  function end(): void {
    stopTimer();
    lastOtherAt = Number.NEGATIVE_INFINITY;
  }

  return {
    queued({ mayWait, queuedAt }) {
      if (mayWait) waiting += 1;
      else lastOtherAt = queuedAt;
    },
    taken(commits) {
      for (const { mayWait } of commits) if (mayWait) waiting -= 1;
      if (waiting === 0) stopTimer();
    },
    lasts(queued) {
      if (queued > waiting || waiting >= mostWaiting) return false;
      if (performance.now() - lastOtherAt > 2 * mostWaitMs) return false;
      timer ??= setTimeout(() => {
        end();
        onEnd();
      }, mostWaitMs);
      return true;
    },
    end,
  };
}
