import { watchFolder } from "./folder.ts";

/** Reloads the folder of scripts when it changes. One reload runs at a time; a change during it starts another one. */
export interface ReloadLoop {
  /** Resolves when no reload runs. */
  close(): Promise<void>;
}

interface ReloadLoopOptions {
  readonly folder: string;
  /** Interval at which the folder is checked even without events. */
  readonly everyMs: number;
  /** Changes within this time are handled together. */
  readonly quietMs: number;
  /** Must not reject. */
  readonly reload: () => Promise<void>;
  /** Called after a while without a reload. */
  readonly onIdle: () => void;
}

/** Upper limit of the delay when changes continue. */
const maxQuietMs = 1_000;
const idleMs = 30_000;

/** Reloads once, and from then on when something changes. */
export async function openReloadLoop(options: ReloadLoopOptions): Promise<ReloadLoop> {
  const { folder, everyMs, quietMs, reload, onIdle } = options;
  let running: Promise<void> | undefined;
  let isAgain = false;
  let isClosed = false;
  let idle: NodeJS.Timeout | undefined;
  let quiet: NodeJS.Timeout | undefined;
  let changedAt = 0;

  async function run(): Promise<void> {
    if (running !== undefined) {
      isAgain = true;
      return running;
    }
    running = reload().finally(() => {
      running = undefined;
      clearTimeout(idle);
      idle = setTimeout(() => {
        if (running === undefined) onIdle();
      }, idleMs);
      idle.unref();
      if (!isAgain || isClosed) return;
      isAgain = false;
      changed();
    });
    return running;
  }

  /** Waits for files that are still being written, up to a limit. */
  function changed(): void {
    if (isClosed) return;
    if (quiet === undefined) changedAt = performance.now();
    else if (performance.now() - changedAt > maxQuietMs) return;
    clearTimeout(quiet);
    quiet = setTimeout(() => {
      quiet = undefined;
      void run();
    }, quietMs);
    quiet.unref();
  }

  await run();
  const unwatch = watchFolder(folder, everyMs, changed);

  return {
    async close() {
      isClosed = true;
      clearTimeout(quiet);
      clearTimeout(idle);
      unwatch();
      await running;
      clearTimeout(idle);
    },
  };
}
