import { create } from "@bufbuild/protobuf";
import { expect, it } from "vitest";
import { filledForBrowsers, filledParams } from "../../../../src/broker/tokens/filled-params.ts";
import { IntegrationSchema, IntegrationSecretsSchema } from "../../../../src/gen/latchkey/v1/integration_pb.ts";
import { ProviderSchema } from "../../../../src/gen/latchkey/v1/provider_pb.ts";

const provider = create(ProviderSchema, { connectionFields: [{ name: "store", pattern: "[a-z0-9]{1,9}" }] });
const integration = create(IntegrationSchema, { settings: { appId: "app 1" }, oauth: { clientId: "client-1" } });
const secrets = create(IntegrationSecretsSchema, { clientSecret: "s3cr3t", settings: { key: "k3y" } });
const parties = (connectionConfig = {}) => ({ provider, integration, secrets, connectionConfig });

it("fills values of the connection and its integration into parameters", () => {
  const params = { context: "stores/${connectionConfig.store}", app: "${integration.appId}", session: "false" };
  expect(filledParams(params, parties({ store: "g5cd38" }))).toEqual({
    context: "stores/g5cd38",
    app: "app 1",
    session: "false",
  });
});

it.each([
  ["is missing", {}],
  ["its field does not allow", { store: "../evil" }],
])("leaves out a parameter whose value %s", (_, config) => {
  expect(filledParams({ context: "stores/${connectionConfig.store}", session: "false" }, parties(config))).toEqual({
    session: "false",
  });
});

it("shows no secret to a browser, and the client secret to nobody", () => {
  const params = { key: "${integration.key}", secret: "${integration.clientSecret}", id: "${integration.clientId}" };
  expect(filledForBrowsers(params, parties())).toEqual({ id: "client-1" });
  expect(filledParams(params, parties())).toEqual({ key: "k3y", id: "client-1" });
});
