/** An open loop in a thread of its own, so that nothing else the bench does counts as time of an answer. */
import { isMainThread, parentPort, Worker, workerData } from "node:worker_threads";
import { type OpenLoop, type Outcome, openLoop, type Target } from "./proxy-load.ts";

interface Asked {
  readonly target: Target;
  readonly rate: OpenLoop;
}

export function openLoopApart(target: Target, rate: OpenLoop): Promise<Outcome> {
  const { promise, resolve, reject } = Promise.withResolvers<Outcome>();
  const worker = new Worker(new URL(import.meta.url), { workerData: { target, rate } satisfies Asked });
  worker.once("message", resolve).once("error", reject);
  return promise;
}

if (!isMainThread) {
  const { target, rate } = workerData as Asked;
  parentPort?.postMessage(await openLoop(target, rate));
}
