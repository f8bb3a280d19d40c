import { create } from "@bufbuild/protobuf";
import { expect, it } from "vitest";
import { createFindGrantUse } from "../../../../src/broker/revocations/shared-grant.ts";
import { sharedAccount } from "../../../../src/core/shared-account.ts";
import { RevocationTaskSchema } from "../../../../src/gen/latchkey/stored/v1/stored_pb.ts";
import { ConnectionSchema } from "../../../../src/gen/latchkey/v1/connection_pb.ts";
import { IntegrationSchema } from "../../../../src/gen/latchkey/v1/integration_pb.ts";
import { ProviderSchema } from "../../../../src/gen/latchkey/v1/provider_pb.ts";
import { loadCatalogue } from "../../../../src/providers/catalogue.ts";

const provider = create(ProviderSchema, {
  name: "mail",
  revocation: { grant: "account", accountField: "metadata.email" },
});
const integration = create(IntegrationSchema, { environment: "e0f1", key: "mail", oauth: { clientId: "app" } });
const connection = (id: string, email: string) =>
  create(ConnectionSchema, {
    ref: { environment: "e0f1", integration: "mail", id },
    metadata: { email },
    tags: { end_user_id: "user-1" },
  });

/** Finds connections of the end user, but none by their account: an older version stored them. */
function grantUse(stored: ReturnType<typeof connection>) {
  const found = (value: unknown) => [{ value, revision: 1, bytes: 0, position: "" }];
  const find = createFindGrantUse({
    connections: { pageBy: async (index: string) => (index === "tag" ? found(stored) : []), page: async () => [] },
    integrations: { page: async () => found(integration) },
    accountOf: (one: Parameters<typeof sharedAccount>[0]) => sharedAccount(one, provider.revocation),
  } as unknown as Parameters<typeof createFindGrantUse>[0]);
  const task = create(RevocationTaskSchema, {
    id: "r1",
    connection: connection("first", "ada@acme.test"),
    integration,
  });
  return find(task, provider);
}

it("keeps the grant of an account that the same end user has connected twice, without the index", async () => {
  expect(await grantUse(connection("second", "ada@acme.test"))).toBe("shared");
  expect(await grantUse(connection("second", "other@acme.test"))).toBe(undefined);
});

it("describes the grants of one revocation endpoint alike", () => {
  const grants = new Map<string, Set<string>>();
  for (const { auth, revocation } of loadCatalogue().values()) {
    const url = auth.case === "oauth2" ? auth.value.revocationUrl : "";
    if (url !== "") grants.set(url, (grants.get(url) ?? new Set()).add(revocation?.grant ?? ""));
  }
  expect([...grants].filter(([, kinds]) => kinds.size > 1)).toEqual([]);
});
