import { loadAverage } from "../proxy-process.ts";
import { withFolder } from "../sidecar-process.ts";
import { deliver, fan } from "./deliver.ts";
import { receive } from "./receive.ts";
import { type Receiver, startReceiver, type WebhooksPart } from "./receiver.ts";
import { steady } from "./steady.ts";
import { trace } from "./trace.ts";

interface Webhooks {
  /** Empty: all parts, without the trace. */
  readonly only: readonly string[];
  readonly rounds: number;
  /** Another build of the sidecar (its `latchkey.js`) to measure in the same rounds of `receive` and `steady`. */
  readonly beside: string | undefined;
}

const parts: Readonly<Record<string, WebhooksPart>> = { receive, steady, fan, deliver };
const traces: Readonly<Record<string, boolean>> = { trace: false, "trace-pinned": true };

/** Webhooks in and out: how fast they are acknowledged, matched and delivered. */
export async function webhooks({ only, rounds, beside }: Webhooks): Promise<void> {
  const names = [...Object.keys(parts), ...Object.keys(traces)];
  const unknown = only.filter((name) => !names.includes(name));
  if (unknown.length > 0) throw new Error(`${unknown.join()}: the parts are ${names.join(", ")}`);
  const wanted = Object.entries(parts).filter(([name]) => only.length === 0 || only.includes(name));
  await withFolder(async (folder) => {
    if (wanted.length > 0) await measure(folder, { wanted, rounds: rounds || 5, beside });
    for (const [name, isPinned] of Object.entries(traces)) {
      if (only.includes(name)) await trace(folder, { rounds: rounds || 2, dist: beside, isPinned });
    }
  });
  process.stdout.write(`load average ${loadAverage()}\n`);
}

interface Measurement extends Pick<Webhooks, "rounds" | "beside"> {
  readonly wanted: readonly (readonly [string, WebhooksPart])[];
}

async function measure(folder: string, { wanted, rounds, beside }: Measurement): Promise<void> {
  const own = await startReceiver({ name: "webhooks", folder });
  const others: Receiver[] = [];
  try {
    if (beside !== undefined) others.push(await startReceiver({ name: "beside", folder, dist: beside }));
    for (const [, part] of wanted) await part([own, ...others], rounds);
  } finally {
    for (const receiver of [own, ...others]) await receiver.stop();
  }
}
