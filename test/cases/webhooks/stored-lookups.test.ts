import { expect, test } from "vitest";
import { calendarUri, startReceiving } from "../../support/sidecar/receiving.ts";

const idsOf = (seen: readonly { readonly body: string }[]) => seen.map(({ body }) => JSON.parse(body).connectionId);
const memory = 'latchkey_lookups_total{source="memory"}';
const recent = 'latchkey_lookups_total{source="recent"}';
const store = 'latchkey_lookups_total{source="store"}';

test("webhooks find connections in the store once the index exceeds its limit, also after a restart", async () => {
  let passedMs = 0;
  const now = () => Date.now() + passedMs;
  const receiving = await startReceiving({ now, env: { LATCHKEY_LOOKUP_MEMORY: "0" } });
  const { application, connect, notifyOf } = receiving;
  const { broker } = receiving.sidecar.sidecar;
  await connect("ada", { metadata: { calendarWatchResourceUris: [calendarUri("ada")] } });
  expect(await notifyOf(calendarUri("ada"), 1)).toBe(200);
  await application.got(1);
  expect(await receiving.sidecar.metric(memory)).toBeGreaterThan(0);

  await expect
    .poll(async () => {
      passedMs += 11_000;
      await broker.keepHouse();
      return receiving.sidecar.metric("latchkey_resource_index_bytes");
    })
    .toBe(0);
  expect(await notifyOf(calendarUri("ada"), 2)).toBe(200);
  expect(await notifyOf(calendarUri("ada"), 3)).toBe(200);
  await application.got(3);
  const { sidecar } = receiving;
  expect([await sidecar.metric(store), await sidecar.metric(recent)]).toEqual([1, 1]);

  // A connection that comes later is found at once, though an answer without it was in memory.
  await connect("grace", { metadata: { calendarWatchResourceUris: [calendarUri("ada")] } });
  expect(await notifyOf(calendarUri("ada"), 4)).toBe(200);
  expect(idsOf(await application.got(5)).toSorted()).toEqual(["ada", "ada", "ada", "ada", "grace"]);

  const again = await receiving.restart();
  expect(await again.metric("latchkey_resource_index_bytes")).toBe(0);
  expect((await again.rest("DELETE", "/connections/ada?provider_config_key=calendar")).status).toBe(200);
  expect(await notifyOf(calendarUri("ada"), 5)).toBe(200);
  const ofLast = () =>
    application.seen.filter(({ body }) => JSON.parse(body).payload?.["x-cal-message-number"] === "5");
  await expect.poll(() => idsOf(ofLast())).toEqual(["grace"]);
});
