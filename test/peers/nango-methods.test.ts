import { type ApiPublicIntegration, Nango, type NangoSyncConfig, type StandardNangoConfig } from "@nangohq/node";
import type { AxiosError, AxiosResponse } from "axios";
import { expect, it } from "vitest";
import { provider } from "../cases/channels/channels.ts";
import { startScripted } from "../cases/syncs/scripting.ts";
import { secretKey } from "../support/sidecar/harness.ts";

const signing = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=";
const scripts = {
  "syncs/things.ts": `
    import { createSync } from "latchkey/scripts";
    import * as z from "zod";
    export default createSync({
      description: "Saves things.", frequency: "every 5 minutes", syncType: "incremental", scopes: ["calendar"],
      endpoints: [{ method: "GET", path: "/things" }],
      checkpoint: z.object({ at: z.string() }),
      metadata: z.object({ region: z.string().optional() }).loose(),
      models: { Thing: z.object({ id: z.string(), size: z.number().nullable() }) },
      exec: async (nango: any) => { await nango.batchSave([{ id: "a", size: 1 }, { id: "b", size: null }], "Thing"); },
    });`,
  "syncs/both.ts": `
    import { createSync } from "latchkey/scripts";
    export default createSync({ description: "", frequency: "1d", autoStart: false, models: {}, exec: async () => {} });`,
  "actions/both.ts": `
    import { createAction } from "latchkey/scripts";
    export default createAction({ description: "Has a sync's name.", exec: async () => "done" });`,
  "actions/greet.ts": `
    import { createAction } from "latchkey/scripts";
    import * as z from "zod";
    export default createAction({
      description: "Greets.", endpoint: { method: "POST", path: "/greetings" },
      input: z.object({ name: z.string().describe("Who is greeted."), loud: z.boolean().optional() }),
      output: z.object({ greeting: z.string() }),
      exec: async (_nango: any, input: any) => ({ greeting: "hello " + input.name }),
    });`,
  "on-events/welcome.ts": `
    import { createOnEvent } from "latchkey/scripts";
    export default createOnEvent({ event: "post-connection-creation", description: "Welcomes.", exec: async () => {} });`,
};

/** Private in the SDK's types, which JavaScript does not show. */
const ofItsOwn = ["getConnectionDetails", "enrichHeaders"];

type Methods = {
  [K in keyof Nango as Nango[K] extends (...given: never[]) => unknown ? Exclude<K, "http"> : never]: Nango[K];
};
type Calls = { readonly [K in keyof Methods]: () => Promise<void> };

const iso = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
const text = expect.any(String);
const number = expect.any(Number);
const config: { readonly [K in keyof Required<NangoSyncConfig>]?: unknown } = {
  id: number,
  version: text,
  enabled: true,
  last_deployed: iso,
  source: "repo",
  sdk_version: text,
  attributes: {},
};
const integration: { readonly [K in keyof ApiPublicIntegration]?: unknown } = {
  display_name: text,
  forward_webhooks: true,
  created_at: iso,
  updated_at: iso,
  logo: text,
};

/** The error that the SDK's user sees. */
const refusal = async (call: Promise<unknown>): Promise<{ status: number | undefined; error: unknown }> => {
  const { response } = await call.then(
    () => ({ response: undefined }),
    (error: AxiosError<{ error: unknown }>) => error,
  );
  return { status: response?.status, error: response?.data.error };
};

it("answers every public method of the SDK in the shape of its types", async () => {
  const started = await startScripted(scripts, {
    env: { LATCHKEY_FORWARD_SECRET: signing },
    settings: {},
  });
  const { data: host } = started.sidecar;
  // As under `dev`: no field that the SDK sends is refused, nor reported.
  started.sidecar.sidecar.refuseMisspelled();
  const nango = new Nango({ host, secretKey });
  await started.connect("ada", { more: { tags: { end_user_id: "user-1" } } });
  await started.run();
  const at = { providerConfigKey: provider, connectionId: "ada" };
  const of = { uniqueKey: provider };
  const wire = { endpoint: "/v3/users/me/calendarList/primary", ...at };
  const isCalendar = ({ status, data }: Pick<AxiosResponse, "status" | "data">) =>
    expect([status, data]).toMatchObject([200, { id: "ada@example.com" }]);
  const isDone = ({ data }: { readonly data: unknown }) => expect(data).toEqual({ success: true });
  const ended = async (id: string) => {
    await started.run();
    return nango.getAsyncActionResult({ id });
  };

  const calls: Calls = {
    async listProviders() {
      const { data } = await nango.listProviders({ search: "sandbox" });
      expect(data.map(({ name }) => name)).toContain(provider);
    },
    async getProvider() {
      expect((await nango.getProvider({ provider })).data).toMatchObject({ name: provider, auth_mode: "OAUTH2" });
    },
    async getProviderTemplates() {
      expect(await nango.getProviderTemplates({ provider })).toEqual({ data: [] });
    },
    async listIntegrations() {
      const { configs } = await nango.listIntegrations();
      expect(configs).toMatchObject([{ ...integration, unique_key: provider, provider }]);
    },
    async getIntegration() {
      expect((await nango.getIntegration(of, { include: ["credentials"] })).data).toMatchObject({
        ...integration,
        credentials: { type: "OAUTH2", client_id: "sandbox" },
      });
    },
    async createIntegration() {
      const body = { provider: "example-api-key", unique_key: "made" };
      expect((await nango.createIntegration(body)).data).toMatchObject({ ...integration, ...body });
    },
    async createQuickstartIntegration() {
      const body = { provider, unique_key: "quick", display_name: "Quick", forward_webhooks: true };
      const { data } = await nango.createQuickstartIntegration(body);
      expect(data).toMatchObject({ ...integration, ...body });
      // The credentials work: a token of the client is refreshed with them.
      const granted = started.sandbox.grant({ user: "ada@example.com", client: "sandbox" });
      const { access_token, refresh_token } = granted;
      const expires_at = new Date(started.clock.now() + 3_600_000).toISOString();
      const credentials = { type: "OAUTH2", access_token, refresh_token, expires_at };
      const imported = { provider_config_key: "quick", connection_id: "ada", credentials };
      expect((await started.sidecar.rest("POST", "/connections", { body: imported })).status).toBe(201);
      expect(await nango.getToken("quick", "ada", true)).not.toBe(access_token);
      expect(await refusal(nango.createQuickstartIntegration(body))).toMatchObject({ status: 409 });
      const keyed = await nango.createQuickstartIntegration({ provider: "example-api-key", unique_key: "keyed" });
      expect(keyed.data).toMatchObject({ unique_key: "keyed" });
      const needsApp = nango.createQuickstartIntegration({ provider: "github", unique_key: "hub" });
      expect(await refusal(needsApp)).toMatchObject({
        status: 400,
        error: { errors: [{ path: ["provider"], message: expect.stringContaining("needs an app of your own") }] },
      });
    },
    async updateIntegration() {
      const { data } = await nango.updateIntegration({ uniqueKey: "made" }, { display_name: "Made" });
      expect(data).toMatchObject({ ...integration, display_name: "Made" });
      const renamed = await refusal(nango.updateIntegration({ uniqueKey: "made" }, { unique_key: "other" }));
      expect(renamed).toMatchObject({ status: 400, error: { errors: [{ path: ["unique_key"] }] } });
    },
    async deleteIntegration() {
      isDone(await nango.deleteIntegration("made"));
    },
    async listFunctions() {
      const all = await nango.listFunctions(of);
      expect(all.pagination).toEqual({ total: 5, page: 0, limit: 100 });
      expect(all.data.map(({ type, name }) => `${type} ${name}`)).toEqual([
        ...["action both", "action greet", "on-event welcome", "sync both", "sync things"],
      ]);
      const second = await nango.listFunctions(of, { type: "sync", page: 1, limit: 1 });
      expect(second).toMatchObject({ data: [{ name: "things" }], pagination: { total: 2, page: 1, limit: 1 } });
      expect((await nango.listFunctions(of, { search: "GREETS" })).data).toMatchObject([{ name: "greet" }]);
      const none = await refusal(nango.listFunctions({ uniqueKey: "none" }));
      expect(none).toMatchObject({ status: 404, error: { code: "unknown_provider_config" } });
    },
    async getFunction() {
      const { data } = await nango.getFunction({ ...of, name: "things" });
      expect(data).toEqual({
        ...{ id: number, enabled: true, last_deployed: iso, source: "repo" },
        ...{ name: "things", type: "sync", description: "Saves things.", scopes: ["calendar"] },
        ...{ returns: ["Thing"], runs: "every 5 minutes", auto_start: true, track_deletes: false },
        input: `SyncMetadata_${provider}_things`,
        json_schema: { definitions: expect.objectContaining({ Thing: expect.objectContaining({ type: "object" }) }) },
      });
      expect((await nango.getFunction({ ...of, name: "welcome" })).data).toMatchObject({
        ...{ type: "on-event", event: "post-connection-creation" },
      });
      expect(await refusal(nango.getFunction({ ...of, name: "both" }))).toMatchObject({
        status: 400,
        error: { code: "ambiguous_function", payload: { matches: [{ type: "action" }, { type: "sync" }] } },
      });
      expect((await nango.getFunction({ ...of, name: "both" }, { type: "action" })).data.type).toBe("action");
      expect(await refusal(nango.getFunction({ ...of, name: "none" }))).toMatchObject({ status: 404 });
    },
    async getFunctionCode() {
      expect(await nango.getFunctionCode({ ...of, name: "greet" })).toEqual({
        type: "action",
        code: scripts["actions/greet.ts"],
      });
    },
    async deleteFunction() {
      const refused = await refusal(nango.deleteFunction({ ...of, name: "greet" }, { type: "action" }));
      expect(refused).toMatchObject({
        status: 400,
        error: { code: "function_managed_by_deploy", message: expect.stringContaining("LATCHKEY_SCRIPTS") },
      });
    },
    async listConnections() {
      const { connections } = await nango.listConnections({ userId: "user-1" });
      expect(connections).toMatchObject([{ connection_id: "ada", created: iso, tags: { end_user_id: "user-1" } }]);
    },
    async getConnection() {
      const connection = await nango.getConnection(provider, "ada");
      expect(connection).toMatchObject({ connection_id: "ada", credentials: { type: "OAUTH2" }, created_at: iso });
    },
    async patchConnection() {
      const tags = { end_user_id: "user-1", plan: "free" };
      isDone({ data: await nango.patchConnection({ connectionId: "ada", provider_config_key: provider }, { tags }) });
    },
    async getToken() {
      expect(await nango.getToken(provider, "ada")).toEqual(text);
    },
    async getRawTokenResponse() {
      expect(await nango.getRawTokenResponse(provider, "ada")).toEqual(expect.any(Object));
    },
    async getMetadata() {
      expect(await nango.getMetadata(provider, "ada")).toEqual(expect.any(Object));
    },
    async setMetadata() {
      await nango.setMetadata(provider, "ada", { region: "eu" });
      expect(await nango.getMetadata(provider, "ada")).toEqual({ region: "eu" });
    },
    async updateMetadata() {
      await nango.updateMetadata(provider, "ada", { size: 1 });
      expect(await nango.getMetadata(provider, "ada")).toEqual({ region: "eu", size: 1 });
    },
    async getScriptsConfig() {
      const [whole, ...others] = (await nango.getScriptsConfig()) as StandardNangoConfig[];
      expect(others).toEqual([]);
      expect(whole).toMatchObject({ providerConfigKey: provider, provider });
      expect(whole?.syncs.find(({ name }) => name === "things")).toMatchObject({
        ...config,
        ...{ type: "sync", description: "Saves things.", scopes: ["calendar"], runs: "every 5 minutes" },
        ...{ auto_start: true, track_deletes: false, sync_type: "incremental", webhookSubscriptions: [] },
        ...{ returns: ["Thing"], endpoints: [{ method: "GET", path: "/things" }], features: ["checkpoints"] },
        ...{ metadata: { description: "Saves things.", scopes: ["calendar"] }, input: text },
        models: [
          {
            name: "Thing",
            fields: [
              { name: "id", type: "string" },
              { name: "size", type: "number" },
            ],
          },
        ],
        json_schema: { definitions: { Thing: { type: "object" } } },
      });
      const action = whole?.actions.find(({ name }) => name === "greet");
      expect(action).toMatchObject({
        ...config,
        ...{ type: "action", endpoints: [{ method: "POST", path: "/greetings" }], features: [] },
        input: `ActionInput_${provider}_greet`,
        returns: [`ActionOutput_${provider}_greet`],
      });
      const definitions = (action?.json_schema?.definitions ?? {}) as Record<string, object>;
      expect(Object.keys(definitions).toSorted()).toEqual([action?.input, ...(action?.returns ?? [])]);
      const [event, ...more] = whole?.["on-events"] ?? [];
      expect(more).toEqual([]);
      expect(event).toMatchObject({
        ...config,
        ...{ name: "welcome", type: "on-event", returns: [], endpoints: [], features: [], json_schema: null },
      });
      const functions = await nango.getScriptsConfig("openai");
      expect(functions).toEqual({
        data: expect.arrayContaining([
          {
            name: "both",
            description: "Has a sync's name.",
            parameters: { type: "object", properties: {}, required: [] },
          },
          {
            name: "greet",
            description: "Greets.",
            parameters: {
              type: "object",
              properties: {
                name: { type: "string", description: "Who is greeted." },
                loud: { type: "boolean", description: "" },
              },
              required: ["name"],
            },
          },
        ]),
      });
      expect(await refusal(nango.getScriptsConfig("yaml" as never))).toMatchObject({ status: 400 });
    },
    async listRecords() {
      const list = async (more: object) => (await nango.listRecords({ ...at, model: "Thing", ...more })).records;
      const { records, next_cursor } = await nango.listRecords({ ...at, model: "Thing" });
      expect(next_cursor).toBeNull();
      expect(records).toMatchObject([
        { id: "a", size: 1, _nango_metadata: { last_action: "ADDED", deleted_at: null, cursor: text } },
        { id: "b" },
      ]);
      expect(await list({ modifiedAfter: "2020-01-01" })).toHaveLength(2);
      expect(await list({ delta: "2020-01-01" })).toHaveLength(2);
      expect(await list({ modifiedAfter: "2999-12-31" })).toHaveLength(0);
      expect(await list({ modifiedAfter: new Date(0).toISOString() })).toHaveLength(2);
      expect(await list({ ids: ["b"] })).toHaveLength(1);
      for (const modifiedAfter of ["2020-02-30", "2020-13-01", "yesterday", "2020-01", "2020-01-01T00:00:00"]) {
        expect(await refusal(list({ modifiedAfter }))).toMatchObject({
          status: 400,
          error: { errors: [{ path: ["modified_after"] }] },
        });
      }
    },
    async pruneRecords() {
      const { records } = await nango.listRecords({ ...at, model: "Thing" });
      const untilCursor = records[0]?._nango_metadata.cursor ?? "";
      const pruned = await nango.pruneRecords({ ...at, model: "Thing", untilCursor });
      expect(pruned).toEqual({ count: 1, has_more: false });
    },
    async triggerSync() {
      isDone((await nango.triggerSync(provider, ["things"], "ada", "full_refresh")) as unknown as AxiosResponse);
    },
    async startSync() {
      isDone((await nango.startSync(provider, ["things"], "ada")) as unknown as AxiosResponse);
    },
    async pauseSync() {
      isDone((await nango.pauseSync(provider, ["things"], "ada")) as unknown as AxiosResponse);
    },
    async syncStatus() {
      const { syncs } = await nango.syncStatus(provider, ["things"], "ada");
      expect(syncs).toMatchObject([
        { id: text, name: "things", frequency: text, status: text, recordCount: { Thing: 2 } },
      ]);
      expect(Object.keys(syncs[0] ?? {})).toEqual(
        expect.arrayContaining(["type", "finishedAt", "nextScheduledSyncAt", "latestResult", "checkpoint"]),
      );
    },
    async updateSyncConnectionFrequency() {
      const { frequency } = await nango.updateSyncConnectionFrequency(provider, "things", "ada", "every 2 hours");
      expect(frequency).toBe("every 2 hours");
    },
    async waitForConnection() {
      expect(await nango.waitForConnection(provider, "user-1")).toMatchObject({ connection_id: "ada" });
    },
    async createSyncVariant() {
      const variant = { provider_config_key: provider, connection_id: "ada", name: "things", variant: "other" };
      expect(await nango.createSyncVariant(variant)).toMatchObject({ name: "things", variant: "other" });
    },
    async deleteSyncVariant() {
      const variant = { provider_config_key: provider, connection_id: "ada", name: "things", variant: "other" };
      isDone({ data: await nango.deleteSyncVariant(variant) });
    },
    async getEnvironmentVariables() {
      expect(await nango.getEnvironmentVariables()).toEqual([]);
    },
    async triggerAction() {
      expect(await nango.triggerAction(provider, "ada", "greet", { name: "Bob" })).toEqual({ greeting: "hello Bob" });
    },
    async triggerActionAsync() {
      const { id, statusUrl } = await nango.triggerActionAsync(provider, "ada", "greet", { name: "Eve" });
      expect(statusUrl).toBe(`/action/${id}`);
    },
    async getAsyncActionResult() {
      const { id } = await nango.triggerActionAsync(provider, "ada", "greet", { name: "Eve" });
      expect(await ended(id)).toEqual({ greeting: "hello Eve" });
    },
    proxy: async () => isCalendar(await nango.proxy({ ...wire, method: "GET" })),
    get: async () => isCalendar(await nango.get(wire)),
    async post() {
      const made = await nango.post({ ...wire, endpoint: "/v3/calendars/primary/events", data: { summary: "Lunch" } });
      expect([made.status, made.data]).toMatchObject([200, { summary: "Lunch" }]);
    },
    // The provider has no such methods on this path, and answers so itself.
    put: async () => expect((await refusal(nango.put(wire))).status).toBeGreaterThanOrEqual(404),
    patch: async () => expect((await refusal(nango.patch(wire))).status).toBeGreaterThanOrEqual(404),
    delete: async () => expect((await refusal(nango.delete(wire))).status).toBeGreaterThanOrEqual(404),
    async verifyIncomingWebhookRequest() {
      const [seen] = await forwarded();
      const { body, headers } = seen ?? { body: "", headers: {} };
      const holding = new Nango({ host, secretKey, webhookSigningKey: signing });
      expect(holding.verifyIncomingWebhookRequest(body, headers)).toBe(true);
      expect(holding.verifyIncomingWebhookRequest(`${body} `, headers)).toBe(false);
      // The key of the environment signs nothing.
      expect(nango.verifyIncomingWebhookRequest(body, headers)).toBe(false);
    },
    async verifyWebhookSignature() {
      const [seen] = await forwarded();
      // The SDK warns of its own method: the header that it checks is not sent, so that it always fails.
      expect(seen?.headers).not.toHaveProperty("x-nango-signature");
      expect(nango.verifyWebhookSignature("", JSON.parse(seen?.body ?? "{}"))).toBe(false);
    },
    async createConnectSession() {
      const { data } = await nango.createConnectSession({ end_user: { id: "user-2" } });
      expect(data).toMatchObject({ token: text, expires_at: iso, connect_link: text });
    },
    async createReconnectSession() {
      const { data } = await nango.createReconnectSession({ connection_id: "ada", integration_id: provider });
      expect(data).toMatchObject({ token: text, expires_at: iso, connect_link: text });
    },
    // Runs last: it deletes what the others use.
    async deleteConnection() {
      // Beside the SDK's field, the answer tells what becomes of the grant.
      expect((await nango.deleteConnection(provider, "ada")).data).toMatchObject({ success: true });
    },
  };

  async function forwarded() {
    await expect.poll(() => started.application.seen.length).toBeGreaterThan(0);
    return started.application.seen;
  }

  const declared = Object.getOwnPropertyNames(Nango.prototype).filter(
    (name) => name !== "constructor" && !name.startsWith("_") && !ofItsOwn.includes(name),
  );
  // A method that the SDK gains is missing here.
  expect(Object.keys(calls).toSorted()).toEqual(declared.toSorted());
  const failures: Record<string, unknown> = {};
  for (const [name, call] of Object.entries(calls)) {
    await call().catch((error: AxiosError) => {
      failures[name] = error.response === undefined ? error.message : [error.response.status, error.response.data];
    });
  }
  expect(failures).toEqual({});
  const ignored = started.sidecar.logged.filter((line) => line.includes("ignored unknown fields"));
  expect(ignored).toEqual([]);
});
