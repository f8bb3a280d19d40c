import { ConnectError } from "@connectrpc/connect";
import { expect, it } from "vitest";
import { BadRequestSchema, ErrorInfoSchema, HelpSchema } from "../../../src/gen/google/rpc/error_details_pb.ts";
import { ConnectionService } from "../../../src/gen/latchkey/v1/connection_pb.ts";
import { EnvironmentService } from "../../../src/gen/latchkey/v1/environment_pb.ts";
import { IntegrationService } from "../../../src/gen/latchkey/v1/integration_pb.ts";
import { sidecarOfFile } from "../../support/sidecar/door.ts";
import { adminKey, keyedConnection } from "../../support/sidecar/harness.ts";

const running = sidecarOfFile();
const caught = async (call: Promise<unknown>): Promise<ConnectError> =>
  call.then(
    () => expect.fail("the call succeeded"),
    (error: unknown) => ConnectError.from(error),
  );
const hintIn = (error: ConnectError) => error.findDetails(ErrorInfoSchema)[0]?.metadata["hint"];

it("links an RPC error to its explanation, and suggests a name", async () => {
  const { client, rest, data } = running();
  await rest("POST", "/connections", { body: keyedConnection("ada") });
  const connections = client(ConnectionService);
  const get = (integration: string, id: string) =>
    caught(connections.getConnection({ ref: { environment: "dev", integration, id } }));
  const unknown = await get("keyd", "ada");
  expect(unknown.findDetails(HelpSchema)[0]?.links[0]?.url).toBe(`${data}/docs/errors#unknown_provider_config`);
  expect(hintIn(unknown)).toBe('did you mean "keyed"?');
  expect(hintIn(await get("keyed", "adda"))).toBe('did you mean "ada"?');
  const environment = await caught(client(EnvironmentService).getEnvironment({ name: "dvv" }));
  expect(hintIn(environment) ?? environment.message).toContain("dev");
});

it("names the unknown field of a JSON message, not its type", async () => {
  const call = async (path: string, body: unknown) => {
    const answer = await fetch(`${running().control}/latchkey.v1.${path}`, {
      method: "POST",
      headers: { authorization: `Bearer ${adminKey}`, "content-type": "application/json" },
      body: JSON.stringify(body),
    });
    return (await answer.json()) as { message: string; details: readonly { type: string; value: string }[] };
  };
  const create = `${IntegrationService.typeName.split(".").at(-1)}/CreateIntegration`;
  const nested = await call(create, { integration: { oauth: { client_idd: "x" } } });
  expect(nested.message).toBe('unknown field "client_idd"; did you mean "client_id"?');
  expect(nested.details.map(({ type }) => type)).toEqual([
    ErrorInfoSchema.typeName,
    HelpSchema.typeName,
    BadRequestSchema.typeName,
  ]);
  expect((await call(create, { integration: { key: 5 } })).message).toMatch(/^"key" is not valid: expected string/);
  const scopes = await call("EnvironmentService/CreateKey", { environment: "dev", scopes: ["SCOPE_PRXY"] });
  expect(scopes.message).toBe('"scopes" is not valid: "SCOPE_PRXY"');
  expect(Buffer.from(scopes.details[0]?.value ?? "", "base64").toString()).toContain('did you mean "SCOPE_PROXY"?');
  const time = await call("EnvironmentService/CreateKey", { environment: "dev", expires_at: "tomorrow" });
  expect(time.message).toMatch(/^"expires_at" is not valid: /);
  expect((await call(create, { nothing: 1 })).message).toBe('unknown field "nothing"');
  const opened = await fetch(`${running().control}/latchkey.v1.IntegrationService/GetIntegration`);
  expect([opened.status, await opened.json()]).toMatchObject([415, { error: { code: "unsupported_media_type" } }]);
  const near = await fetch(`${running().control}/latchkey.v1.IntegrationService/GetIntegrations`, { method: "POST" });
  expect(await near.json()).toMatchObject({
    error: { hint: 'did you mean "/latchkey.v1.IntegrationService/GetIntegration"?' },
  });
});
