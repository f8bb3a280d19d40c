import { toJson, toJsonString } from "@bufbuild/protobuf";
import { ValueSchema } from "@bufbuild/protobuf/wkt";
import { ConnectError } from "@connectrpc/connect";
import { Nango } from "@nangohq/node";
import type { AxiosError } from "axios";
import { describe, expect, it } from "vitest";
import { GetRunResponseSchema, ScriptErrorSchema, SyncService } from "../../../src/gen/latchkey/v1/sync_pb.ts";
import { apiKey, startProvider, startProxied } from "../../support/peers/provider.ts";
import { secretKey, temporaryFolder } from "../../support/sidecar/harness.ts";
import { provider } from "../channels/channels.ts";
import { startScripted, writeScripts } from "./scripting.ts";

const action = (body: string, more = "") => `
  import { createAction } from "latchkey/scripts";
  import * as z from "zod";
  export default createAction({ description: "", ${more} exec: async (nango: any, input: any) => { ${body} } });`;

const scripts = {
  "actions/refuse.ts": action(
    "throw new nango.ActionError({ type: 'my_type', detail: { a: 1 }, message: 'not today' });",
    "endpoint: { method: 'POST', path: '/refusals' },",
  ),
  "actions/words.ts": action("throw new nango.ActionError('only words');"),
  "actions/plain.ts": action("throw new TypeError('it makes no sense');"),
  "actions/object.ts": action("throw { code: 5, reason: input.text };"),
  "actions/cycle.ts": action("const one: any = {}; one.self = one; throw one;"),
  "actions/nested.ts": action("return nango.triggerAction(nango.providerConfigKey, 'ada', 'refuse', {});"),
  "actions/missing.ts": action("await nango.get({ endpoint: '/v3/calendars/none/events' });"),
  "actions/caught.ts": action(
    "try { await nango.get({ endpoint: '/v3/calendars/none/events' }); } catch (error) { throw new nango.ActionError({ status: error.response.status }); }",
  ),
  "actions/gone.ts": action("await nango.get({ endpoint: '/', baseUrlOverride: 'http://127.0.0.1:1' });"),
  "actions/output.ts": action("return { n: 'seven' };", "output: z.object({ n: z.number() }),"),
  "actions/large.ts": action("throw new nango.ActionError({ message: 'large', text: 'x'.repeat(3_000_000) });"),
  "actions/bytes.ts": action("throw new nango.ActionError({ count: 10n });"),
};
const headers = { "provider-config-key": provider, "connection-id": "ada" };

async function ready() {
  const started = await startScripted(scripts);
  await started.connect("ada");
  const trigger = (name: string) =>
    started.sidecar.rest("POST", "/action/trigger", { headers, body: { action_name: name } });
  return { started, trigger };
}

describe("an action that fails", () => {
  it("returns its ActionError to the caller, over every interface", async () => {
    const { started, trigger } = await ready();
    const error = {
      code: "action_script_runtime_error",
      message: "not today",
      doc_url: expect.stringContaining("/docs/errors#script_failed"),
      payload: { type: "my_type", detail: { a: 1 }, message: "not today" },
    };
    const triggered = await trigger("refuse");
    expect([triggered.status, triggered.body]).toEqual([424, { error }]);
    expect(triggered.headers.get("latchkey-error")).toBe("script_failed");
    expect((await started.sidecar.rest("POST", "/refusals", { headers, body: {} })).body).toEqual({ error });
    expect((await trigger("nested")).body.error.message).toBe("not today");

    const nango = new Nango({ host: started.sidecar.data, secretKey });
    const thrown = await nango.triggerAction(provider, "ada", "refuse").catch((one: AxiosError) => one.response?.data);
    expect(thrown).toEqual({ error });
    const { id } = await nango.triggerActionAsync(provider, "ada", "refuse");
    await started.run();
    const later = await nango.getAsyncActionResult({ id }).catch((one: AxiosError) => one.response);
    expect([(later as { status: number }).status, (later as { data: unknown }).data]).toEqual([424, { error }]);

    const refused = await started.sidecar
      .client(SyncService)
      .runAction({ connection: started.ref("ada"), name: "refuse" })
      .catch((one: unknown) => ConnectError.from(one));
    const [detail] = (refused as ConnectError).findDetails(ScriptErrorSchema);
    expect(detail).toMatchObject({ code: error.code, payloadOmitted: false });
    expect(detail?.payload && toJson(ValueSchema, detail.payload)).toEqual(error.payload);
    const { run } = await started.sidecar.client(SyncService).getRun({ environment: "dev", id: detail?.runId ?? "" });
    expect(run?.error?.code).toBe(error.code);
    expect(run?.output && toJson(ValueSchema, run.output)).toEqual(error.payload);
  });

  it("names the kind of failure in the SDK's terms", async () => {
    const { trigger } = await ready();
    const of = async (name: string) => (await trigger(name)).body.error;
    expect(await of("words")).toEqual({
      doc_url: expect.any(String),
      code: "action_script_runtime_error",
      message: "only words",
      payload: { message: "only words" },
    });
    expect(await of("plain")).toMatchObject({
      code: "action_script_failure",
      payload: { name: "TypeError", message: "it makes no sense" },
    });
    expect(await of("output")).toMatchObject({ code: "invalid_action_output", payload: [{ path: "n" }] });
    expect(await of("bytes")).toMatchObject({ code: "action_script_failure" });
    const large = await of("large");
    expect(large).toMatchObject({
      code: "action_script_runtime_error",
      payload: { message: "large", truncated: true },
    });
    expect(JSON.stringify(large).length).toBeLessThan(2_000);
  });

  it("shows a thrown object that has no message as JSON, within bounds", async () => {
    const { started } = await ready();
    const of = async (action_name: string, text = "") =>
      (await started.sidecar.rest("POST", "/action/trigger", { headers, body: { action_name, input: { text } } })).body
        .error;
    expect(await of("object", "none left")).toMatchObject({
      code: "action_script_failure",
      payload: { name: "Error", message: 'the script threw {"code":5,"reason":"none left"}' },
    });
    const large = await of("object", "x".repeat(200_000));
    expect(large.payload.message).toMatch(/^the script threw \{"code":5,"reason":"x+…$/);
    expect(JSON.stringify(large).length).toBeLessThan(5_000);
    expect((await of("cycle")).payload.message).toBe("the script threw a value that JSON cannot represent");
  });

  it("has the provider's status and body where that refused, and none where the script judged it", async () => {
    const { started, trigger } = await ready();
    const missing = (await trigger("missing")).body.error;
    expect(missing).toMatchObject({
      code: "script_http_error",
      message: "the provider answered 404",
      additional_properties: { upstream_response: { status: 404, headers: { "content-type": expect.any(String) } } },
    });
    expect(missing.payload).toEqual(missing.additional_properties.upstream_response.body);
    expect(missing.payload).toMatchObject({ error: { code: 404 } });
    expect((await trigger("caught")).body.error).toMatchObject({
      code: "action_script_runtime_error",
      payload: { status: 404 },
    });
    const nango = new Nango({ host: started.sidecar.data, secretKey });
    const { id } = await nango.triggerActionAsync(provider, "ada", "missing");
    await started.run();
    const later = await nango.getAsyncActionResult({ id }).catch((one: AxiosError) => one.response?.data);
    expect(later).toEqual({ error: missing });
  });

  it("shows no credential, however the provider or the script put it into the failure", async () => {
    const folder = await temporaryFolder();
    const echo = await startProvider((request, socket) => {
      const key = request.fields.find(([name]) => name === "x-api-key")?.[1] ?? "";
      const body = JSON.stringify({
        got: key,
        encoded: Buffer.from(key).toString("base64"),
        order: "ord_1234567890abcdef",
      });
      socket.write(`HTTP/1.1 422 No\r\nX-Request-Id: ${key}\r\nContent-Length: ${body.length}\r\n\r\n${body}`);
    });
    writeScripts(
      folder,
      {
        "actions/echo.ts": action("await nango.get({ endpoint: '/' });"),
        "actions/thrown.ts": action(
          "try { await nango.get({ endpoint: '/' }); } catch (error) { throw new nango.ActionError({ message: `no: ${error.response.data.got}`, [error.response.data.got]: [error.response.data] }); }",
        ),
      },
      "here",
    );
    const running = await startProxied(echo.port, { env: { LATCHKEY_SCRIPTS: folder } });
    const headers = { "provider-config-key": "here", "connection-id": "ada" };
    for (const name of ["echo", "thrown"]) {
      const { status, body } = await running.rest("POST", "/action/trigger", { headers, body: { action_name: name } });
      const text = JSON.stringify(body);
      expect([status, body.error.code]).toEqual([
        424,
        name === "echo" ? "script_http_error" : "action_script_runtime_error",
      ]);
      expect(text).not.toContain(apiKey);
      expect(text).not.toContain(Buffer.from(apiKey).toString("base64"));
      expect(text).toContain("[redacted]");
      // An id is data, however much it looks like a token.
      expect(text).toContain("ord_1234567890abcdef");
    }
    const { runs } = await running.client(SyncService).listRuns({ environment: "dev" });
    for (const { id } of runs) {
      const shown = await running.client(SyncService).getRun({ environment: "dev", id });
      expect(toJsonString(GetRunResponseSchema, shown)).not.toContain(apiKey);
    }
  });

  it("shows no token that was minted for a request", async () => {
    const folder = await temporaryFolder();
    const sent: string[] = [];
    const echo = await startProvider((request, socket) => {
      const token = request.fields.find(([name]) => name === "authorization")?.[1]?.replace("Bearer ", "") ?? "";
      sent.push(token);
      const body = JSON.stringify({ got: token, part: token.split(".")[2] });
      socket.write(`HTTP/1.1 422 No\r\nX-Token: ${token}\r\nContent-Length: ${body.length}\r\n\r\n${body}`);
    });
    writeScripts(folder, { "actions/echo.ts": action("await nango.get({ endpoint: '/' });") }, "here");
    const running = await startProxied(echo.port, {
      env: { LATCHKEY_SCRIPTS: folder },
      provider: { auth: { case: "jwt", value: { jwt: { algorithm: "HS256", keyField: "key" } } } },
      credentials: { type: "JWT", key: "the-signing-key-of-ada-0123456789" },
    });
    const { status, body } = await running.rest("POST", "/action/trigger", {
      headers: { "provider-config-key": "here", "connection-id": "ada" },
      body: { action_name: "echo" },
    });
    expect([status, body.error.code]).toEqual([424, "script_http_error"]);
    const [token = ""] = sent;
    expect(token.split(".")).toHaveLength(3);
    for (const part of [token, token.split(".")[2]]) expect(JSON.stringify(body)).not.toContain(part);
  });

  it("shows no token that took the place of one that the provider refused", async () => {
    const folder = await temporaryFolder();
    const renewed = "the-renewed-token-0123456789";
    const echo = await startProvider((request, socket) => {
      const { line, fields } = request;
      const [, token = ""] = fields.find(([name]) => name === "authorization")?.[1]?.split(" ") ?? [];
      const [status, body] = line.includes("/token")
        ? ["200 OK", { access_token: renewed, token_type: "bearer", expires_in: 3_600 }]
        : [token === renewed ? "422 No" : "401 No", { got: token }];
      const text = JSON.stringify(body);
      socket.write(
        `HTTP/1.1 ${status}\r\nContent-Type: application/json\r\nContent-Length: ${text.length}\r\n\r\n${text}`,
      );
    });
    writeScripts(folder, { "actions/echo.ts": action("await nango.get({ endpoint: '/' });") }, "here");
    const tokenUrl = `https://127.0.0.1:${echo.port}/token`;
    const running = await startProxied(echo.port, {
      env: { LATCHKEY_SCRIPTS: folder },
      provider: { auth: { case: "oauth2", value: { authorizationUrl: "https://a.example/a", tokenUrl } } },
      integration: { credentials: { type: "OAUTH2", client_id: "them", client_secret: "their-client-secret" } },
      credentials: {
        type: "OAUTH2",
        access_token: "the-refused-token-9876543210",
        refresh_token: "the-refresh-token-0123456789",
        expires_at: "2100-01-01T00:00:00Z",
      },
    });
    const { status, body } = await running.rest("POST", "/action/trigger", {
      headers: { "provider-config-key": "here", "connection-id": "ada" },
      body: { action_name: "echo" },
    });
    expect([status, body.error.additional_properties.upstream_response.status]).toEqual([424, 422]);
    expect(body.error.payload).toEqual({ got: "[redacted]" });
  });
});
