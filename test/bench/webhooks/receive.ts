import { setTimeout as sleep } from "node:timers/promises";
import { createLog } from "../../../src/base/log.ts";
import { createMetrics } from "../../../src/base/metrics/metrics.ts";
import { openBackend } from "../../../src/store/open.ts";
import { localSealKey } from "../../../src/store/sealed/seal-key.ts";
import { openSealedStore } from "../../../src/store/sealed/sealed.ts";
import { cpuSeconds } from "../proxy-process.ts";
import { createTable } from "../proxy-table.ts";
import { recordColumn } from "../score/figure.ts";
import { commits } from "../store.ts";
import type { Receiver, WebhooksPart } from "./receiver.ts";
import { send, sendHard } from "./sending.ts";
import { commitsAlike } from "./store-commits.ts";

const sendersTried = [1, 16, 64];
const perRound = 4_000;

/** A number of senders, each waiting for its acknowledgement, compared to bare durable commits in the same folder. */
export const receive: WebhooksPart = async (receivers, rounds) => {
  const [{ folder }] = receivers;
  const world = {
    now: Date.now,
    log: createLog({ level: "error", format: "json", write: (line) => void process.stderr.write(line) }),
    metrics: createMetrics(),
  };
  const backend = await openBackend({ kind: "level", folder: `${folder}/commits` }, world);
  const keys = [localSealKey({ id: "bench", secret: Buffer.alloc(32, 1) })];
  const store = await openSealedStore({ backend, keys, world });
  const table = createTable(["acknowledged/s", "p50 ms", "p99 ms", "CPU µs each", "to one key", "to as a webhook"]);
  for (const receiver of receivers) {
    // The first delivery pauses the address: all later ones wait.
    await send(receiver, receiver.paths.idle, { senders: 1, count: 1 });
    await sleep(1_000);
    for (const senders of sendersTried) await send(receiver, receiver.paths.idle, { senders, count: perRound / 2 });
  }
  for (let round = 0; round < rounds; round += 1) {
    for (const senders of sendersTried) {
      const count = senders === 1 ? perRound / 4 : perRound * (senders === 64 ? 3 : 1);
      const bare = await commits(backend, senders, count / senders ** 0.25);
      table.note(`store, one key, ${senders} callers`, [bare]);
      const alike = await commitsAlike(store, { senders, count });
      table.note(`store, as a webhook, ${senders} callers`, [alike]);
      for (const receiver of turnOf(receivers, round)) {
        const before = cpuSeconds(receiver.sidecar.pid);
        const { sent, perSecond, p50Ms, p99Ms } = await sendHard(receiver, receiver.paths.idle, { senders, count });
        const cpu = ((cpuSeconds(receiver.sidecar.pid) - before) / sent) * 1e6;
        const figures = [perSecond, p50Ms, p99Ms, cpu, perSecond / bare, perSecond / alike];
        table.note(`${receiver.name}, ${senders} senders`, figures);
      }
    }
  }
  for (const senders of sendersTried) {
    recordColumn(table, {
      name: `webhooks, ${senders} ${senders === 1 ? "sender" : "senders"}`,
      column: "acknowledged/s",
      better: "higher",
      own: `webhooks, ${senders} senders`,
      peers: { "the store's commits": `store, as a webhook, ${senders} callers`, beside: `beside, ${senders} senders` },
    });
  }
  store.close();
  await backend.close();
  process.stdout.write(
    "\nreceived, matched, stored with a forward and acknowledged; the application takes nothing meanwhile:\n",
  );
  process.stdout.write(`${table.text({ peers: [], compared: "acknowledged/s" })}\n`);
};

/** Each build is first in its turn. */
export const turnOf = (receivers: readonly Receiver[], round: number): readonly Receiver[] => {
  const from = round % receivers.length;
  return [...receivers.slice(from), ...receivers.slice(0, from)];
};
