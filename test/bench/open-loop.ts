/** An open loop in its own thread, so that other work of the bench does not count as response time. */
import { isMainThread, parentPort, Worker, workerData } from "node:worker_threads";
import { type Call, type OpenLoop, openLoop, type Target } from "./proxy-load.ts";
import { quantile } from "./sidecar-process.ts";

interface Asked {
  readonly target: Target;
  readonly rate: Omit<OpenLoop, "signal">;
}

type Looped = Awaited<ReturnType<typeof openLoop>>;

export function openLoopApart(target: Target, { signal, ...rate }: OpenLoop): Promise<Looped> {
  const { promise, resolve, reject } = Promise.withResolvers<Looped>();
  const worker = new Worker(new URL(import.meta.url), { workerData: { target, rate } satisfies Asked });
  worker.once("message", resolve).once("error", reject);
  signal?.addEventListener("abort", () => worker.postMessage("enough"));
  return promise;
}

export function latencyOf(calls: readonly Call[] = [], share: number): number {
  const sorted = calls.map(({ tookMs }) => tookMs).toSorted((a, b) => a - b);
  return quantile(sorted, share);
}

if (!isMainThread) {
  const { target, rate } = workerData as Asked;
  const over = new AbortController();
  parentPort?.once("message", () => over.abort());
  parentPort?.postMessage(await openLoop(target, { ...rate, signal: over.signal }));
  parentPort?.close();
}
