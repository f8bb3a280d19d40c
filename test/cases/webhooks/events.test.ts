import { setTimeout as sleep } from "node:timers/promises";
import type { NangoAuthWebhookBody, NangoAuthWebhookBodyError, NangoAuthWebhookBodySuccess } from "@nangohq/types";
import { expect, it } from "vitest";
import { ConnectionService } from "../../../src/gen/latchkey/v1/connection_pb.ts";
import { LogService } from "../../../src/gen/latchkey/v1/log_pb.ts";
import { WebhookService } from "../../../src/gen/latchkey/v1/webhook_pb.ts";
import { startApplication } from "../../support/peers/application.ts";
import { type Connecting, connecting, departure } from "../../support/sidecar/connecting.ts";
import { provider, startRenewing } from "../../support/sidecar/renewing.ts";

// Does not compile if the peer's type gains or loses a field.
const always = {
  from: true,
  type: true,
  connectionId: true,
  authMode: true,
  providerConfigKey: true,
  provider: true,
  environment: true,
  operation: true,
  success: true,
} as const;
const sometimes = { tags: true, endUser: true, error: true } as const;
const known = { ...always, ...sometimes } satisfies Record<
  keyof NangoAuthWebhookBodyError | keyof NangoAuthWebhookBodySuccess,
  true
>;

/** Reads an event like an application for the peer: with all its fields, and one that latchkey adds. */
function eventIn(body: string): NangoAuthWebhookBody {
  const event: NangoAuthWebhookBody = JSON.parse(body);
  expect([...Object.keys(known), "accountChanged", "revocation"]).toEqual(expect.arrayContaining(Object.keys(event)));
  expect(Object.keys(event)).toEqual(expect.arrayContaining(Object.keys(always)));
  return event;
}

async function listening() {
  const application = await startApplication();
  const all = await connecting({ sidecar: { env: { LATCHKEY_FORWARD_URL: application.url } } });
  const events = async (count: number) => (await application.got(count)).map(({ body }) => eventIn(body));
  return { ...all, all, application, events };
}

async function authorize(all: Connecting, token: string): Promise<void> {
  const page = await all.browser().go(departure(all, token));
  expect([page.status, page.text.includes("is connected")]).toEqual([200, true]);
}

it("reports that a connection was created, authorized again or deleted", async () => {
  const { all, events, session, reconnectSession, connections, sidecar } = await listening();
  const endUser = { id: "u1", email: "ada@app.example", organization: { id: "org" } };
  await authorize(all, await session({ end_user: endUser, tags: { team: "sales" } }));
  const [{ connection_id: id } = { connection_id: "" }] = await connections();
  const of = {
    from: "latchkey",
    type: "auth",
    connectionId: id,
    authMode: "OAUTH2",
    providerConfigKey: "sandbox-files",
    provider: "sandbox-files",
    environment: "dev",
    success: true,
  };
  const [created] = await events(1);
  expect(created).toMatchObject({
    ...of,
    operation: "creation",
    tags: { team: "sales", end_user_id: "u1" },
    endUser: { endUserId: "u1", endUserEmail: "ada@app.example", organizationId: "org" },
  });
  await authorize(all, await reconnectSession(id, { end_user: endUser }));
  expect((await events(2))[1]).toMatchObject({ ...of, operation: "override" });
  expect((await sidecar.rest("DELETE", `/connections/${id}?provider_config_key=sandbox-files`)).status).toBe(200);
  expect((await events(3))[2]).toMatchObject({ ...of, operation: "deletion" });
  const { forwards } = await sidecar.client(WebhookService).listForwards({ environment: "dev" });
  expect(forwards.map(({ type, notificationId, connectionId }) => [type, notificationId, connectionId])).toEqual(
    Array(3).fill(["auth", "", id]),
  );
});

it("reports that a connection was authorized with another account, without naming the accounts", async () => {
  const { all, events, session, reconnectSession, connections, sidecar, application } = await listening();
  const calendar = "sandbox-calendar";
  const as = async (person: string, token: string): Promise<unknown> => {
    const hint = { "authorization_params[login_hint]": `${person}@example.com` };
    const page = await all.browser().go(departure(all, token, hint, calendar));
    expect([page.status, page.text.includes("is connected")]).toEqual([200, true]);
    const [one] = await connections();
    const { connection_config } = await all.connection(calendar, one?.connection_id ?? "");
    return connection_config;
  };
  const logs = async () =>
    (await sidecar.client(LogService).listLogs({ environment: "dev", operation: "auth.authorize" })).logs;
  const ada = await as("ada", await session());
  const [{ connection_id: id } = { connection_id: "" }] = await connections();
  const again = () => reconnectSession(id, { integration_id: calendar });
  expect(await as("ada", await again())).toEqual(ada);
  expect(await logs()).toEqual([]);
  const bob = await as("bob", await again());
  expect(bob).not.toEqual(ada);
  const told = await events(3);
  expect(told.map((event) => [event.operation, "accountChanged" in event && event.accountChanged])).toEqual([
    ["creation", false],
    ["override", false],
    ["override", true],
  ]);
  const [log, ...others] = await logs();
  expect([log?.integration, log?.connectionId, log?.failed, others]).toEqual([calendar, id, false, []]);
  expect(log?.lines.map(({ level, message }) => [level, message])).toEqual([
    ["warn", "the connection was authorized again, with another account at the provider"],
  ]);
  const said = [
    ...application.seen.map(({ body }) => body),
    JSON.stringify(log?.lines.map(({ fields }) => fields)),
    ...sidecar.logged,
  ].join("\n");
  for (const secret of ["example.com", ...[ada, bob].flatMap((config) => Object.values(config as object))]) {
    expect(said).not.toContain(secret);
  }
});

it("reports once that a grant has ended, and the authorization that repairs it", async () => {
  const { all, events, session, reconnectSession, connections, sandbox, sidecar, application } = await listening();
  await authorize(all, await session());
  const [{ connection_id: id } = { connection_id: "" }] = await connections();
  sandbox.revoke();
  const renew = () => sidecar.rest("GET", `/connections/${id}?provider_config_key=sandbox-files&force_refresh=true`);
  expect((await renew()).status).toBe(424);
  const [, died] = await events(2);
  expect(died).toMatchObject({
    operation: "refresh",
    success: false,
    error: { type: expect.stringMatching(/^[a-z_]+$/), description: expect.stringContaining("authorize again") },
  });
  const ref = { environment: "dev", integration: "sandbox-files", id };
  const { connection } = await sidecar.client(ConnectionService).getConnection({ ref });
  expect(died).toMatchObject({ error: { type: connection?.stateReason } });
  // The connection still fails, and the application was already notified.
  expect((await renew()).status).toBe(424);
  await sleep(200);
  expect(application.seen).toHaveLength(2);
  await authorize(all, await reconnectSession(id));
  expect((await events(3))[2]).toMatchObject({ operation: "override", success: true });
  expect((await renew()).status).toBe(200);
  await sleep(200);
  expect(application.seen).toHaveLength(3);
});

it("reports expired credentials that cannot be refreshed, but not to the caller of their import", async () => {
  let now = Date.now();
  const application = await startApplication();
  const { sidecar, connectAda } = await startRenewing({
    now: () => now,
    env: { LATCHKEY_FORWARD_URL: application.url },
  });
  const tokens = await connectAda({ expiresInS: 3_600 });
  const imported = async (more: object) => {
    const { access_token } = tokens;
    const expires_at = new Date(now + 3_600_000).toISOString();
    const credentials = { type: "OAUTH2", access_token, expires_at, ...more };
    const body = { provider_config_key: provider, connection_id: "ada", credentials };
    return (await sidecar.rest("POST", "/connections", { body })).status;
  };
  expect(await imported({})).toBe(201);
  now += 3_601_000;
  await sidecar.sidecar.broker.keepHouse();
  await sidecar.sidecar.broker.keepHouse();
  const [first] = await application.got(1);
  expect(eventIn(first?.body ?? "")).toMatchObject({
    operation: "refresh",
    success: false,
    connectionId: "ada",
    error: { type: "credentials_expired" },
  });
  expect(await imported({ refresh_token: tokens.refresh_token })).toBe(201);
  await sleep(200);
  expect(application.seen).toHaveLength(1);
});

it("stores nothing for an application without an address", async () => {
  const all = await connecting();
  await authorize(all, await all.session());
  const [{ connection_id: id } = { connection_id: "" }] = await all.connections();
  await all.sidecar.rest("DELETE", `/connections/${id}?provider_config_key=sandbox-files`);
  const { forwards } = await all.sidecar.client(WebhookService).listForwards({ environment: "dev" });
  expect(forwards).toEqual([]);
});
