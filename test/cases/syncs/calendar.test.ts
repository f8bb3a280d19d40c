import { expect, it } from "vitest";
import { SyncService } from "../../../src/gen/latchkey/v1/sync_pb.ts";
import { provider } from "../channels/channels.ts";
import { startScripted } from "./scripting.ts";

/** The shape of the peer's published calendar guide (seed 6.1 and 6.5): a hook, a daily renewal, a hook. */
const watch = `
async function watchPrimary(nango) {
  const { data: primary } = await nango.get({ endpoint: "/v3/users/me/calendarList/primary" });
  const id = crypto.randomUUID();
  const { data } = await nango.post({
    endpoint: \`/v3/calendars/\${encodeURIComponent(primary.id)}/events/watch\`,
    data: { id, type: "webhook", address: await nango.getWebhookURL(), expiration: Date.now() + 7 * 86_400_000 },
  });
  return { id, resourceId: data.resourceId };
}`;

const scripts = {
  "events/watch-primary-calendar.ts": `
import { createOnEvent } from "nango";
import * as z from "zod";
${watch}
export default createOnEvent({
  event: "post-connection-creation",
  description: "Watches the primary calendar.",
  metadata: z.object({ calendarChannelId: z.string().optional(), calendarResourceId: z.string().optional() }),
  exec: async (nango) => {
    const { id, resourceId } = await watchPrimary(nango);
    await nango.updateMetadata({ calendarChannelId: id, calendarResourceId: resourceId });
    await nango.log("watching", { level: "info" });
  },
});
`,
  "syncs/watch-renewal.ts": `
import { createSync } from "nango";
import * as z from "zod";
${watch}
export default createSync({
  description: "Renews the channel of the primary calendar.",
  version: "1.0.0",
  frequency: "1d",
  autoStart: false,
  syncType: "full",
  endpoints: [{ method: "GET", path: "/calendar/watch-renewal" }],
  metadata: z.object({ calendarChannelId: z.string().optional(), calendarResourceId: z.string().optional() }),
  models: { Renewal: z.object({ id: z.string(), channelId: z.string() }) },
  exec: async (nango) => {
    const old = await nango.getMetadata();
    const { id, resourceId } = await watchPrimary(nango);
    if (old.calendarChannelId && old.calendarResourceId) {
      try {
        await nango.post({
          endpoint: "/v3/channels/stop",
          data: { id: old.calendarChannelId, resourceId: old.calendarResourceId },
        });
      } catch (error) {
        await nango.log(\`the old channel was not stopped: \${error.message}\`, { level: "error" });
      }
    }
    await nango.updateMetadata({ calendarChannelId: id, calendarResourceId: resourceId });
    await nango.batchSave([{ id: "primary", channelId: id }], "Renewal");
  },
});
`,
  "events/stop-watching.ts": `
import { createOnEvent } from "nango";
export default createOnEvent({
  event: "pre-connection-deletion",
  description: "Stops the channel.",
  exec: async (nango) => {
    const { calendarChannelId: id, calendarResourceId: resourceId } = await nango.getMetadata();
    if (!id || !resourceId) return;
    await nango.post({ endpoint: "/v3/channels/stop", data: { id, resourceId } });
  },
});
`,
  "syncs/changes.ts": `
import { createSync } from "nango";
import * as z from "zod";
export default createSync({
  description: "Hears of changes.",
  frequency: "1d",
  syncType: "incremental",
  autoStart: false,
  models: { Change: z.object({ id: z.string(), state: z.string() }) },
  webhookSubscriptions: ["*"],
  exec: async () => {},
  onWebhook: async (nango, payload) => {
    const state = payload["x-goog-resource-state"] ?? payload["x-cal-resource-state"];
    const number = payload["x-goog-message-number"] ?? payload["x-cal-message-number"];
    await nango.batchSave([{ id: String(number), state }], "Change");
  },
});
`,
};

it("runs the three scripts of the calendar guide, and a sync on every notification", async () => {
  const started = await startScripted(scripts);
  await started.connect("ada");
  await started.run();
  const [first] = started.live();
  expect(started.live()).toHaveLength(1);
  expect(await started.metadata("ada")).toMatchObject({ calendarChannelId: first?.id });

  const headers = { "provider-config-key": provider, "connection-id": "ada" };
  const renewed = await started.sidecar.rest("POST", "/calendar/watch-renewal", { headers });
  expect(renewed.status, JSON.stringify(renewed.body)).toBe(200);
  expect(renewed.body).toMatchObject({ success: true });
  const [second] = started.live();
  expect(started.live()).toHaveLength(1);
  expect(second?.id).not.toBe(first?.id);
  expect(await started.metadata("ada")).toMatchObject({ calendarChannelId: second?.id });
  const saved = await started.sidecar.rest("GET", "/calendar/watch-renewal", { headers });
  expect(saved.body.records).toMatchObject([{ id: "primary", channelId: second?.id }]);

  expect((await started.remove("ada")).status).toBe(200);
  expect(started.live()).toHaveLength(0);
});

it("runs a sync for each notification that matches its connection, beside the delivery", async () => {
  const started = await startScripted(scripts);
  await started.connect("ada", { more: { metadata: { email: "ada@example.com" } } });
  const place = { ...started.ref("ada"), $typeName: "latchkey.v1.ConnectionRef" as const };
  await started.sidecar.client(SyncService).startSync({ ref: { connection: place, name: "changes" } });
  await started.run();
  await started.run();
  started.sandbox.changeCalendar("ada@example.com");
  const headers = { "provider-config-key": provider, "connection-id": "ada" };
  const changes = async () => (await started.sidecar.rest("GET", "/records?model=Change", { headers })).body.records;
  await expect.poll(async () => (await changes()).length).toBeGreaterThan(0);
  expect((await changes())[0]).toMatchObject({ id: "1", state: "sync" });
  expect(started.forwards("forward")[0]).toMatchObject({ connectionId: "ada" });
});
