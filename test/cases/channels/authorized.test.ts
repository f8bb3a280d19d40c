import { expect, it } from "vitest";
import { ChannelService, Channel_State as State } from "../../../src/gen/latchkey/v1/channel_pb.ts";
import { startApplication } from "../../support/peers/application.ts";
import { connecting, departure } from "../../support/sidecar/connecting.ts";

const key = "calendars";

it("watches an account that an end user has connected, and resources they consent to later", async () => {
  const application = await startApplication();
  const all = await connecting({
    sidecar: { env: { LATCHKEY_FORWARD_URL: application.url } },
    integrations: [
      {
        environment: "dev",
        key,
        provider: "sandbox-calendar",
        oauth: { client_id: "sandbox", client_secret: { env: "APP_SECRET" } },
        channels: { automatic: true },
      },
    ],
  });
  const { sandbox, sidecar, session, browser } = all;
  const forwards = () => application.seen.map(({ body }) => JSON.parse(body)).filter(({ type }) => type === "forward");
  const states = async (states: readonly State[]) =>
    (await sidecar.client(ChannelService).listChannels({ environment: "dev", states: [...states] })).channels;
  await browser().go(departure(all, await session({ allowed_integrations: [key] }), {}, key));
  const [connection] = await all.connections();
  const id = connection?.connection_id ?? "";
  // The housekeeping does it within a second or two.
  await expect.poll(async () => (await states([State.ACTIVE])).length).toBe(1);
  const [first] = await states([State.ACTIVE]);
  expect(first?.connection?.id).toBe(id);
  sandbox.changeCalendar("ada@example.com");
  await expect.poll(() => forwards().length).toBe(2);
  expect(forwards().map(({ connectionId }) => connectionId)).toEqual([id, id]);

  const again = await all.reconnectSession(id, { integration_id: key });
  await browser().go(departure(all, again, {}, key));
  await expect.poll(async () => (await states([State.ACTIVE]))[0]?.previousId).toBe(first?.id);
  await expect.poll(async () => (await states([State.STOPPED])).map((one) => one.id)).toEqual([first?.id]);
  expect(sandbox.seen().channels).toHaveLength(1);
});
