import { create } from "@bufbuild/protobuf";
import { expect, it } from "vitest";
import { tokenClient } from "../../../../src/broker/credentials/token-client.ts";
import { CredentialsSchema } from "../../../../src/gen/latchkey/v1/credentials_pb.ts";
import { IntegrationSchema, IntegrationSecretsSchema } from "../../../../src/gen/latchkey/v1/integration_pb.ts";

const integration = create(IntegrationSchema, { oauth: { clientId: "app" } });
const credentials = create(CredentialsSchema, { kind: { case: "oauth2Client", value: { token: "at" } } });
const of = (secrets: object) =>
  Buffer.from(
    tokenClient({ credentials, integration, secrets: create(IntegrationSecretsSchema, secrets) }) ?? [],
  ).toString("hex");

it("distinguishes a token of one client from that of another secret, key or certificate", () => {
  const [plain, ...others] = [
    of({ clientSecret: "s" }),
    of({ clientSecret: "t" }),
    of({ clientSecret: "s", privateKey: "k" }),
    of({ clientSecret: "s", clientCertificate: "one" }),
    of({ clientSecret: "s", clientCertificate: "two" }),
  ];
  expect(new Set([plain, ...others]).size).toBe(5);
  expect(of({ clientSecret: "s", webhookSecret: "w" })).toBe(plain);
});

it("knows a token again that was obtained before integrations had certificates", () => {
  // SHA-256 of `["at","app","s",""]`.
  expect(of({ clientSecret: "s" })).toBe("3998d4e679861d6558495da97577ee89f2a009857ead6e9e5bbe7d29fd3b9c1f");
});
