import { expect, it, onTestFinished } from "vitest";
import { createLog } from "../../../../src/base/log.ts";
import type { DedicatedConnection, PostgresConnections } from "../../../../src/store/postgres/connections.ts";
import { createNotifyListener } from "../../../../src/store/postgres/listening/notify.ts";

/** A connection whose notifications are answered when the test says so, as over a slow link. */
function playedConnection() {
  const sent: { readonly revision: unknown; readonly answer: (outcome: Promise<never[]>) => void }[] = [];
  const connection = {
    processId: 7,
    ended: new Promise<void>(() => {}),
    onNotification() {},
    close: async () => {},
    query(text: string, values: readonly unknown[] = []) {
      if (!text.includes("pg_notify")) return Promise.resolve([[7, "1"]]);
      return new Promise((resolve) => sent.push({ revision: values[1], answer: resolve }));
    },
  } as unknown as DedicatedConnection;
  return { connection, sent };
}

async function listening() {
  const { connection, sent } = playedConnection();
  const listener = createNotifyListener({
    connections: { dedicate: async () => connection } as unknown as PostgresConnections,
    storeId: "0dd00000-0000-4000-8000-000000000001",
    log: createLog({ level: "error", format: "json", write: () => {} }),
    onRing: () => {},
    onEnded: () => {},
  });
  onTestFinished(() => listener.close());
  await expect.poll(() => listener.isListening()).toBe(true);
  return { listener, sent };
}

it("sends a notification only when the one before is answered, and then the latest", async () => {
  const { listener, sent } = await listening();
  listener.ring(1);
  await expect.poll(() => sent.length).toBe(1);
  // A notification takes longer than the interval of notifications.
  for (const revision of [2, 3, 4]) {
    listener.ring(revision);
    await new Promise((resolve) => setTimeout(resolve, 30));
  }
  expect(sent.map(({ revision }) => revision)).toEqual(["1"]);
  sent[0]?.answer(Promise.resolve([]));
  await expect.poll(() => sent.map(({ revision }) => revision)).toEqual(["1", "4"]);
});

it("sends the next notification after one that failed", async () => {
  const { listener, sent } = await listening();
  listener.ring(1);
  await expect.poll(() => sent.length).toBe(1);
  sent[0]?.answer(Promise.reject(new Error("the connection is broken")));
  listener.ring(2);
  await expect.poll(() => sent.map(({ revision }) => revision)).toEqual(["1", "2"]);
});
