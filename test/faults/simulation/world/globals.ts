import { createRequire, syncBuiltinESMExports } from "node:module";
import type { SimulatedTime } from "./time.ts";

const require = createRequire(import.meta.url);
const RealDate = Date;

/** Replaces timers, clocks and randomness of this program, before the code under test is loaded. */
export function replaceGlobals(time: SimulatedTime, random: () => number): void {
  const perProcess = (ms: number) => Math.max(1, ms) / (time.process?.rate ?? 1);

  class SimulatedTimer {
    readonly #everyMs: number | undefined;
    readonly #run: () => void;
    #afterMs: number;
    #cancel: () => void = () => {};

    constructor(run: () => void, afterMs: number, everyMs?: number) {
      this.#run = run;
      this.#afterMs = afterMs;
      this.#everyMs = everyMs;
      this.refresh();
    }

    refresh(): this {
      this.#cancel();
      this.#cancel = time.afterIn(time.process, this.#afterMs, () => {
        if (this.#everyMs !== undefined) {
          this.#afterMs = this.#everyMs;
          this.refresh();
        }
        this.#run();
      });
      return this;
    }

    close(): this {
      this.#cancel();
      return this;
    }

    ref = () => this;
    unref = () => this;
    hasRef = () => true;
    [Symbol.dispose] = () => void this.close();
  }

  type Run = (...given: unknown[]) => void;
  const after = (run: Run, ms = 1, ...given: unknown[]) => new SimulatedTimer(() => run(...given), perProcess(ms));
  const every = (run: Run, ms = 1, ...given: unknown[]) =>
    new SimulatedTimer(() => run(...given), perProcess(ms), perProcess(ms));
  const soon = (run: Run, ...given: unknown[]) => new SimulatedTimer(() => run(...given), 0);
  const clear = (timer: unknown) => timer instanceof SimulatedTimer && timer.close();
  const timers = {
    ...{ setTimeout: after, setInterval: every, setImmediate: soon },
    ...{ clearTimeout: clear, clearInterval: clear, clearImmediate: clear },
  };
  Object.assign(globalThis, timers);
  Object.assign(require("node:timers"), timers);
  Object.assign(require("node:timers/promises"), {
    setTimeout: (ms: number, value?: unknown, options?: { readonly signal?: AbortSignal }) =>
      sleep(after, ms, value, options?.signal),
    setImmediate: (value?: unknown) => new Promise((resolve) => void soon(() => resolve(value))),
  });
  AbortSignal.timeout = (ms) => {
    const controller = new AbortController();
    after(() => controller.abort(new DOMException("The operation was aborted due to timeout", "TimeoutError")), ms);
    return controller.signal;
  };

  performance.now = () => time.monotonicMs();
  globalThis.Date = class extends RealDate {
    constructor(...given: readonly unknown[]) {
      super(...((given.length === 0 ? [time.wallMs()] : given) as [number]));
    }
    static override now = () => Math.floor(time.wallMs());
  } as DateConstructor;
  replaceRandomness(random);
  syncBuiltinESMExports();
}

function sleep(
  after: (run: () => void, ms: number) => { close(): void },
  ms: number,
  value: unknown,
  signal?: AbortSignal,
) {
  return new Promise((resolve, reject) => {
    const abort = () => {
      timer.close();
      reject(Object.assign(new Error("The operation was aborted"), { name: "AbortError", code: "ABORT_ERR" }));
    };
    const timer = after(() => {
      signal?.removeEventListener("abort", abort);
      resolve(value);
    }, ms);
    if (signal?.aborted === true) abort();
    else signal?.addEventListener("abort", abort, { once: true });
  });
}

function replaceRandomness(random: () => number): void {
  const fill = <T extends NodeJS.ArrayBufferView>(view: T): T => {
    const bytes = new Uint8Array(view.buffer, view.byteOffset, view.byteLength);
    for (let i = 0; i < bytes.length; i += 1) bytes[i] = Math.floor(random() * 256);
    return view;
  };
  const randomBytes = (size: number) => fill(Buffer.alloc(size));
  const uuid = () => {
    const bytes = randomBytes(16);
    bytes[6] = ((bytes[6] ?? 0) & 0x0f) | 0x40;
    bytes[8] = ((bytes[8] ?? 0) & 0x3f) | 0x80;
    return bytes.toString("hex").replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
  };
  const randomInt = (one: number, other?: number) =>
    other === undefined ? Math.floor(random() * one) : one + Math.floor(random() * (other - one));
  Math.random = random;
  Object.assign(require("node:crypto"), { randomBytes, randomUUID: uuid, randomInt, randomFillSync: fill });
  crypto.getRandomValues = fill as typeof crypto.getRandomValues;
  crypto.randomUUID = uuid as typeof crypto.randomUUID;
}
