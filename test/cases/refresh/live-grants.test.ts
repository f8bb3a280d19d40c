import { expect, it } from "vitest";
import { emailHash } from "../../../src/core/notifications/email-hash.ts";
import { describeProviders } from "../../../src/dev/sandbox/providers.ts";
import { ConnectSessionService, DeviceAuthorization_State } from "../../../src/gen/latchkey/v1/connect_session_pb.ts";
import { LogService } from "../../../src/gen/latchkey/v1/log_pb.ts";
import { type Connecting, connecting, departure } from "../../support/sidecar/connecting.ts";

const nearlyUsedUp = "latchkey_grants_nearly_used_up_total";
const limited = "limited";

/** A calendar whose accounts may have ten live refresh tokens; the sandbox's user is Ada. */
const limitedTo = (most: number) =>
  connecting({
    sandbox: { behaviour: { consent: "allow", deviceIntervalS: 1 } },
    providers: (origin) =>
      describeProviders(origin)
        .filter(({ name }) => name === "sandbox-calendar")
        .map((calendar) => ({
          ...calendar,
          name: limited,
          oauth2: { ...(calendar["oauth2"] as object), refresh_tokens: { use: "USE_KEEPS", max_per_account: most } },
        })),
    integrations: [
      {
        environment: "dev",
        key: limited,
        provider: limited,
        oauth: { client_id: "sandbox", client_secret: { env: "APP_SECRET" } },
      },
    ],
  });

async function importOf(all: Connecting, id: string, { email = "ada@example.com", expiresInS = 3_600 } = {}) {
  const { status } = await all.sidecar.rest("POST", "/connections", {
    body: {
      provider_config_key: limited,
      connection_id: id,
      connection_config: { emailAddressHash: emailHash(email) },
      credentials: {
        type: "OAUTH2",
        access_token: `access-of-${id}`,
        refresh_token: `refresh-of-${id}`,
        expires_at: new Date(Date.now() + expiresInS * 1_000).toISOString(),
      },
    },
  });
  expect(status).toBe(201);
}

const authorise = async (all: Connecting) => all.browser().go(departure(all, await all.session(), {}, limited));

const grantLogs = async (all: Connecting) =>
  (await all.sidecar.client(LogService).listLogs({ environment: "dev", operation: "auth.grants" })).logs;

it("warns when a new connection uses up nearly all grants of an account", async () => {
  const all = await limitedTo(10);
  for (let i = 0; i < 8; i += 1) await importOf(all, `ada-${i}`);
  // Connections of another account count separately.
  for (let i = 0; i < 5; i += 1) await importOf(all, `bob-${i}`, { email: "bob@example.com" });
  expect((await authorise(all)).status).toBe(200);
  expect([await grantLogs(all), await all.sidecar.metric(nearlyUsedUp)]).toEqual([[], 0]);
  expect((await authorise(all)).status).toBe(200);
  const [log, ...others] = await grantLogs(all);
  expect(others).toEqual([]);
  const ids = (await all.connections()).map(({ connection_id }) => connection_id);
  expect(ids).toContain(log?.connectionId);
  const { log: whole } = await all.sidecar.client(LogService).getLog({ environment: "dev", id: log?.id ?? "" });
  expect(whole?.lines.map(({ fields }) => fields)).toEqual([{ live_grants: 10, most_grants: 10, provider: limited }]);
  expect(await all.sidecar.metric(nearlyUsedUp)).toBe(1);
  const line = all.sidecar.logged.find((one) => one.includes("nearly as many refresh tokens"));
  expect(JSON.parse(line ?? "{}")).toMatchObject({ integration: limited, live: 10, log_id: log?.id });
});

it("warns for a device too, and stops once others are gone", async () => {
  const all = await limitedTo(3);
  for (let i = 0; i < 2; i += 1) await importOf(all, `ada-${i}`);
  const sessions = all.sidecar.client(ConnectSessionService);
  const connectDevice = async () => {
    const { authorization } = await sessions.beginDeviceAuthorization({ environment: "dev", integration: limited });
    await fetch(authorization?.verificationUriComplete ?? "");
    const state = async () =>
      (await sessions.getDeviceAuthorization({ id: authorization?.id ?? "" })).authorization?.state;
    await expect.poll(state).toBe(DeviceAuthorization_State.CONNECTED);
  };
  await connectDevice();
  // The check follows once the connection exists.
  await expect.poll(() => all.sidecar.metric(nearlyUsedUp)).toBe(1);
  for (let i = 0; i < 2; i += 1) {
    const path = `/connections/ada-${i}?provider_config_key=${limited}`;
    expect((await all.sidecar.rest("DELETE", path)).status).toBe(200);
  }
  await connectDevice();
  expect(await all.sidecar.metric(nearlyUsedUp)).toBe(1);
});

it("does not count connections that must be authorized again", async () => {
  const all = await limitedTo(3);
  await importOf(all, "ada-0");
  await importOf(all, "dead", { expiresInS: -60 });
  expect((await all.sidecar.rest("GET", `/connections/dead?provider_config_key=${limited}`)).status).toBe(424);
  expect((await authorise(all)).status).toBe(200);
  expect(await all.sidecar.metric(nearlyUsedUp)).toBe(0);
  expect((await authorise(all)).status).toBe(200);
  expect(await all.sidecar.metric(nearlyUsedUp)).toBe(1);
});

it.each([
  ["names it as the cause where the account is full", { live: 3, reason: "too_many_grants" }],
  ["blames it for nothing where there is room", { live: 2, reason: "invalid_grant" }],
])("when a refresh token has died, %s", async (_, { live, reason }) => {
  const all = await limitedTo(3);
  for (let i = 1; i < live; i += 1) await importOf(all, `ada-${i}`);
  await importOf(all, "dead", { expiresInS: -60 });
  const shown = await all.sidecar.rest("GET", `/connections/dead?provider_config_key=${limited}`);
  expect(shown.status).toBe(424);
  const listed = (await all.connections()).find(({ connection_id }) => connection_id === "dead");
  expect(listed).toMatchObject({ errors: [{ type: "auth" }] });
  const found = await all.sidecar.sidecar.broker.connections.get({
    $typeName: "latchkey.v1.ConnectionRef",
    environment: "dev",
    integration: limited,
    id: "dead",
  });
  expect(found.value.stateReason).toBe(reason);
});
