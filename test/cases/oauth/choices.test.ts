import { once } from "node:events";
import { expect, it } from "vitest";
import { WebSocket } from "ws";
import { runCli } from "../../../src/cli/program.ts";
import { ChannelService } from "../../../src/gen/latchkey/v1/channel_pb.ts";
import { ConnectionService } from "../../../src/gen/latchkey/v1/connection_pb.ts";
import { IntegrationService } from "../../../src/gen/latchkey/v1/integration_pb.ts";
import { LogService } from "../../../src/gen/latchkey/v1/log_pb.ts";
import { appOrigin } from "../../support/sidecar/connecting.ts";
import { adminKey, secretKey } from "../../support/sidecar/harness.ts";
import { ownProvider } from "../../support/sidecar/own-provider.ts";
import { memoryTerminal } from "../cli/memory-terminal.ts";

const developerToken = "developer-token-0123456789";
const hidden = "not-for-logs-9876543210";

const description = {
  integration_settings: [
    { name: "developerToken", required: true, secret: true },
    { name: "region", pattern: "[a-z]{2}" },
  ],
  oauth2: {
    authorization_url: "${ORIGIN}/authorize",
    token_url: "${ORIGIN}/token",
    token_endpoint_auth_method: "client_secret_post",
    default_scopes: ["one"],
  },
  proxy: {
    base_url: "${ORIGIN}",
    headers: {
      "x-tenant": "${connectionConfig.tenantId}",
      "x-dev": "${integration.developerToken}",
      "x-client": "${integration.clientId}",
      "x-constant": "1",
    },
    query: { region: "${integration.region}" },
  },
  connection_fields: [
    { name: "tenantId", pattern: "t-[a-z0-9]+", automatic: true },
    { name: "tenantName", automatic: true },
    { name: "projectId", automatic: true },
    { name: "owner", automatic: true },
  ],
  describe: [
    {
      request: { path: "/owners/${connectionConfig.tenantId}", headers: { "x-region": "${integration.region}" } },
      value: "owner",
      field: "connection_config.owner",
    },
  ],
  choices: [
    {
      name: "tenant",
      title: "Tenant",
      request: { path: "/tenants" },
      items: "list",
      label: "name",
      connection_config: { tenantId: "id", tenantName: "name" },
    },
    {
      name: "project",
      title: "Project",
      request: { path: "/tenants/${connectionConfig.tenantId}/projects" },
      label: "title",
      connection_config: { projectId: "key" },
    },
  ],
};

/** Watches the items of the tenant. */
const watching = {
  notification: {
    signature: { scheme: "channel_token", header: "x-own-token" },
    values: { channel: { header: "x-own-channel" } },
    channel: "channel",
  },
  channel: {
    resources: {
      items: {
        watch: {
          method: "POST",
          path: "/tenants/${connectionConfig.tenantId}/watch",
          body: '{"id":"${id}","address":"${address}","token":"${token}"}',
        },
        expiration: "expiration",
        default_resource: "all",
      },
    },
    max_lifetime: "86400s",
  },
};

type Tenants = readonly { readonly id: unknown; readonly name: unknown }[];

const chosen = { id: "t-b", name: '<img src=x onerror=alert(1)>"\u202e evil' };
const several: Tenants = [{ id: "t-a", name: "Acme" }, chosen, { id: "EVIL/..", name: "not allowed" }];

interface Further {
  readonly description?: object;
  readonly integration?: object;
}

async function started(tenants: () => Tenants, more: Further = {}) {
  const own = await ownProvider({
    description: { ...description, ...more.description },
    integration: { settings: { developerToken: { env: "DEV_TOKEN" }, region: "eu" }, ...more.integration },
    env: { DEV_TOKEN: developerToken },
    answer({ path, headers }) {
      if (path === "/token") return { body: { access_token: "at-1", refresh_token: "rt-1", expires_in: 3_600 } };
      if (path === "/tenants") return { body: { list: tenants(), noise: headers["x-tenant"] ?? "" } };
      if (path === "/tenants/t-b/projects") return { body: [{ key: 7, title: "Only" }] };
      if (path === "/tenants/t-a/projects")
        return {
          body: [
            { key: 1, title: "One" },
            { key: 2, title: "Two" },
          ],
        };
      if (path.startsWith("/owners/"))
        return { body: { owner: `owner of ${path.slice(8)} in ${headers["x-region"]}` } };
      if (path === "/mirror") return { body: { headers } };
      return path === "/echo" ? { body: { ok: true } } : undefined;
    },
  });
  const { sidecar, seen } = own;
  const idOf = async () => (await own.connections())[0]?.connection_id ?? "";
  const call = async (headers: Record<string, string> = {}, path = "/echo") =>
    fetch(`${sidecar.data}/proxy${path}`, {
      headers: {
        authorization: `Bearer ${secretKey}`,
        "provider-config-key": "own",
        "connection-id": await idOf(),
        ...headers,
      },
    });
  const tokenIn = (page: string) => /name="token" value="([^"]+)"/.exec(page)?.[1] ?? "";
  const choose = (token: string, options: Record<string, string>) =>
    own.browser.post(
      `${sidecar.data}/oauth/choose`,
      new URLSearchParams({
        token,
        ...Object.fromEntries(Object.entries(options).map(([k, v]) => [`choice.${k}`, v])),
      }),
    );
  return { ...own, idOf, call, tokenIn, choose, last: () => seen.at(-1) };
}

it("stores a list of one, asks what depends on it, and fills headers and parameters in place of the caller's", async () => {
  const own = await started(() => [chosen]);
  const page = await own.comeBack(await own.leave(), { code: "c" });
  expect([page.status, page.text.includes("is connected")]).toEqual([200, true]);
  const { connection_config: config, choices_needed: needed } = await own.connection();
  expect([config, needed]).toEqual([
    { tenantId: "t-b", tenantName: chosen.name, projectId: "7", owner: "owner of t-b in eu" },
    undefined,
  ]);
  for (let i = 0; i < 3; i += 1) {
    const answer = await own.call(
      { "x-tenant": "t-of-another", "X-Dev": "mine", "x-constant": "2" },
      "/echo?a=1&region=us",
    );
    expect(answer.status).toBe(200);
    expect(own.last()).toMatchObject({
      query: { a: "1", region: "eu" },
      headers: {
        "x-tenant": "t-b",
        "x-dev": developerToken,
        "x-client": "client-1",
        "x-constant": "2",
        authorization: "Bearer at-1",
      },
    });
  }
  // The list itself was asked for without the header whose value it brings.
  expect(own.seen.find(({ path }) => path === "/tenants")?.headers).not.toHaveProperty("x-tenant");
});

it("lets the end user choose from several before the waiting page is told, and nobody else", async () => {
  const own = await started(() => several);
  const socket = new WebSocket(own.sidecar.data.replace(/^http/, "ws"), { origin: appOrigin });
  const messages: Record<string, unknown>[] = [];
  socket.on("message", (data) => void messages.push(JSON.parse(String(data))));
  await once(socket, "message");
  const at = await own.leave({ ws_client_id: String(messages[0]?.["ws_client_id"]) });
  const page = await own.comeBack(at, { code: "c" });
  expect([page.status, page.text.includes("Acme"), page.text.includes("<img"), page.text.includes("\u202e")]).toEqual([
    ...[200, true, false, false],
  ]);
  expect(page.text).not.toContain("EVIL");
  const id = await own.idOf();
  // The connection exists, and says what is missing; requests that need the value say so too.
  expect((await own.connection())["choices_needed"]).toEqual(["tenant", "project"]);
  const refused = await own.call();
  expect([refused.status, ((await refused.json()) as { error: unknown }).error]).toMatchObject([
    424,
    { code: "choice_needed", hint: `run latchkey connections choose own/${id}` },
  ]);
  const token = own.tokenIn(page.text);
  const { body } = await own.sidecar.rest("GET", `/connections/${id}/choices?provider_config_key=own`);
  const [first, second] = body.choices[0].options;
  expect([first, second.label, body.choices[1].problem]).toMatchObject([
    { label: "Acme", connection_config: { tenantId: "t-a" }, chosen: false },
    ...['<img src=x onerror=alert(1)>" evil', "earlier_choice"],
  ]);
  // Another browser, and an option that is not among them.
  const stranger = await fetch(`${own.sidecar.data}/oauth/choose`, {
    method: "POST",
    body: new URLSearchParams({ token, "choice.tenant": first.id }),
  });
  expect(stranger.status).toBe(400);
  expect(await (await own.choose(token, { tenant: "t-z" })).text()).toContain("could not be stored");
  expect(messages).toHaveLength(1);
  const next = await (await own.choose(token, { tenant: first.id })).text();
  expect([next.includes("Two"), next.includes("Acme")]).toEqual([true, false]);
  const project = /value="([^"]+)"[^>]*><bdi>Two/.exec(next)?.[1] ?? "";
  expect(await (await own.choose(token, { project })).text()).toContain("is connected");
  await expect.poll(() => messages.length).toBe(2);
  expect(messages[1]).toMatchObject({ message_type: "success", connection_id: id });
  expect((await own.choose(token, { project })).status).toBe(400);
  expect((await own.call()).status).toBe(200);
  expect(own.last()?.headers).toMatchObject({ "x-tenant": "t-a" });
  // Details that need the choice are asked for afterwards.
  await expect
    .poll(async () => (await own.connection())["connection_config"])
    .toMatchObject({ tenantId: "t-a", projectId: "2", owner: "owner of t-a in eu" });
  socket.close();
});

it("changes a choice by command and RPC, with what depends on it, and audits names only", async () => {
  const own = await started(() => several);
  await own.comeBack(await own.leave(), { code: "c" });
  const id = await own.idOf();
  const cli = async (...args: string[]) => {
    const terminal = memoryTerminal();
    const code = await runCli(
      ["connections", "choose", ...args, "-e", "dev", "--address", own.sidecar.control, "--key", adminKey],
      terminal,
    );
    return { code, out: terminal.out(), err: terminal.err() };
  };
  const { client } = own.sidecar;
  const ref = { environment: "dev", integration: "own", id };
  const shown = await cli(`own/${id}`);
  expect([shown.code, shown.out]).toEqual([0, expect.stringContaining("Acme")]);
  expect((await cli(`own/${id}`, "tenant=Acme", "project=Two")).code).toBe(0);
  expect((await own.connection())["connection_config"]).toMatchObject({ tenantId: "t-a", projectId: "2" });
  const choose = (tenant: string) => client(ConnectionService).chooseConnectionValues({ ref, options: { tenant } });
  await expect(choose("t-b")).rejects.toThrow("not among the options");
  const { connection } = await choose('<img src=x onerror=alert(1)>" evil');
  // The project was of the other tenant.
  expect(connection).toMatchObject({ connectionConfig: { tenantId: "t-b" }, choicesNeeded: ["project"] });
  expect(connection?.connectionConfig).not.toHaveProperty("projectId");
  const { events } = await client(LogService).listAuditEvents({ action: "connection.choose" });
  expect(events[0]?.fields).toContain("connection_config.tenantId");
  expect(JSON.stringify(events.map(({ fields }) => fields))).not.toContain("t-b");
});

it("keeps settings: validated, secret ones sealed and never listed, one changed without the others", async () => {
  const own = await started(() => [chosen]);
  const { client, rest } = own.sidecar;
  const integrations = client(IntegrationService);
  const { setup } = await integrations.getIntegrationSetup({ environment: "dev", provider: "own" });
  expect(setup?.fields.filter(({ path }) => path.includes("settings"))).toMatchObject([
    { path: "secrets.settings.developerToken", required: true, secret: true, hasValue: true },
    { path: "settings.region", pattern: "[a-z]{2}", hasValue: true },
  ]);
  const made = (settings: object) =>
    rest("POST", "/integrations", { body: { unique_key: "second", provider: "own", settings } });
  expect((await made({ region: "EU" })).status).toBe(400);
  expect((await made({ regoin: "eu" })).body.error.errors[0].message).toContain('Did you mean "region"');
  const { body } = await made({ region: "eu", developerToken: hidden });
  expect(body.data.settings).toEqual({ region: "eu" });
  const get = async (includeSecrets: boolean) =>
    (await integrations.getIntegration({ environment: "dev", key: "second", includeSecrets })).integration;
  expect((await get(true))?.secrets?.settings).toEqual({ developerToken: hidden });
  expect(JSON.stringify(await get(false), (_, value) => (typeof value === "bigint" ? "" : value))).not.toContain(
    hidden,
  );
  const update = (settings: Record<string, string>) =>
    integrations.updateIntegration({
      integration: { environment: "dev", key: "second", settings },
      updateMask: { paths: ["settings"] },
    });
  await update({ region: "us" });
  expect([(await get(true))?.settings, (await get(true))?.secrets?.settings]).toEqual([
    ...[{ region: "us" }, { developerToken: hidden }],
  ]);
  const { integration } = await update({ developerToken: "" });
  expect(integration?.warnings.map(({ code }) => code)).toContain("setting_missing");
  const { events } = await client(LogService).listAuditEvents({ action: "integration.update" });
  expect(JSON.stringify(events.map(({ fields }) => fields))).toContain("settings.developerToken");
  expect(JSON.stringify(events.map(({ fields }) => fields))).not.toContain(hidden);
});

it("hides a secret setting that the provider echoes, and nothing that is no secret", async () => {
  const own = await started(() => [chosen], { integration: { reflection: "mask" } });
  await own.comeBack(await own.leave(), { code: "c" });
  const { headers } = (await (await own.call({}, "/mirror")).json()) as { headers: Record<string, string> };
  expect(headers).toMatchObject({ "x-tenant": "t-b", "x-client": "client-1", "x-constant": "1" });
  expect(headers["x-dev"]).toBe("*".repeat(developerToken.length));
});

it("says that the choice is needed again once its value is gone", async () => {
  const own = await started(() => [chosen]);
  await own.comeBack(await own.leave(), { code: "c" });
  expect((await own.call()).status).toBe(200);
  const { connection } = await own.sidecar.client(ConnectionService).updateConnection({
    connection: { ref: { environment: "dev", integration: "own", id: await own.idOf() }, connectionConfig: {} },
    updateMask: { paths: ["connection_config"] },
  });
  expect(connection?.choicesNeeded).toEqual(["tenant", "project"]);
  const codeOf = async () => ((await (await own.call()).json()) as { error?: { code: string } }).error?.code;
  await expect.poll(codeOf).toBe("choice_needed");
});

it("chooses from a list of one for an imported connection, in the background, and leaves a longer one open", async () => {
  let tenants: Tenants = [chosen];
  const own = await started(() => tenants);
  const imported = (id: string) =>
    own.sidecar.rest("POST", "/connections", {
      body: {
        provider_config_key: "own",
        connection_id: id,
        credentials: { type: "OAUTH2", access_token: "at-1", refresh_token: "rt-1" },
      },
    });
  const shown = async (id: string) =>
    (await own.sidecar.rest("GET", `/connections/${id}?provider_config_key=own`)).body;
  expect((await imported("one")).status).toBe(201);
  await expect
    .poll(async () => (await shown("one")).connection_config)
    .toMatchObject({ tenantId: "t-b", projectId: "7" });
  tenants = several;
  expect((await imported("two")).status).toBe(201);
  const before = own.seen.length;
  await expect.poll(() => own.seen.slice(before - 1).some(({ path }) => path === "/tenants")).toBe(true);
  expect((await shown("two")).choices_needed).toEqual(["tenant", "project"]);
});

it("requests the automatic channel again once a choice is made", async () => {
  const integration = { channels: { automatic: true } };
  const own = await started(() => several, { description: watching, integration });
  await own.comeBack(await own.leave(), { code: "c" });
  const { broker } = own.sidecar.sidecar;
  const requested = async () => {
    await broker.keepChannels();
    return (await own.sidecar.client(ChannelService).listChannels({ environment: "dev" })).channels.length;
  };
  expect(await requested()).toBe(1);
  const path = `/connections/${await own.idOf()}/choices?provider_config_key=own`;
  expect((await own.sidecar.rest("POST", path, { body: { options: { tenant: "Acme" } } })).status).toBe(200);
  expect(await requested()).toBe(2);
});
