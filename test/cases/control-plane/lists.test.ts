import { expect, it } from "vitest";
import { Scope } from "../../../src/gen/latchkey/v1/access_pb.ts";
import { EnvironmentService } from "../../../src/gen/latchkey/v1/environment_pb.ts";
import { IntegrationService } from "../../../src/gen/latchkey/v1/integration_pb.ts";
import { sidecarOfFile } from "../../support/sidecar/door.ts";
import { keyedConnection } from "../../support/sidecar/harness.ts";
import { detailsIn, type Plain, post } from "./foreign.ts";

const running = sidecarOfFile();

interface List {
  readonly method: string;
  readonly field: string;
  readonly nameOf: (item: Plain) => string;
  readonly request?: Plain;
  /** A different request: page tokens are not valid across the two. */
  readonly other: Plain;
}

const lists: readonly List[] = [
  {
    method: "ConnectionService/ListConnections",
    field: "connections",
    nameOf: ({ ref }) => ref.id,
    request: { environment: "dev" },
    other: { environment: "dev", filter: { integrations: ["keyed"] } },
  },
  {
    method: "ConnectionService/ListConnections",
    field: "connections",
    nameOf: ({ ref }) => ref.id,
    request: { environment: "dev", filter: { tags: { set: "x" } } },
    other: { environment: "dev", filter: { tags: { set: "y" } } },
  },
  {
    method: "IntegrationService/ListIntegrations",
    field: "integrations",
    nameOf: ({ key }) => key,
    request: { environment: "dev" },
    other: { environment: "dev", provider: "calendar" },
  },
  {
    method: "ProviderService/ListProviders",
    field: "providers",
    nameOf: ({ name }) => name,
    other: { search: "cal" },
  },
  {
    method: "EnvironmentService/ListKeys",
    field: "keys",
    nameOf: ({ id }) => id,
    request: { environment: "dev" },
    other: {},
  },
  {
    method: "LogService/ListAuditEvents",
    field: "events",
    nameOf: ({ id }) => id,
    request: { environment: "dev", action: "connection" },
    other: { environment: "dev", action: "integration" },
  },
  {
    method: "ConnectionService/ListConnections",
    field: "connections",
    nameOf: ({ ref }) => ref.id,
    request: { environment: "dev", filter: { states: ["STATE_EXPIRING", "STATE_REAUTHORIZATION_REQUIRED"] } },
    other: { environment: "dev", filter: { states: ["STATE_EXPIRING"] } },
  },
  {
    method: "LogService/ListLogs",
    field: "logs",
    nameOf: ({ id }) => id,
    // Logs of other operations come later, on their own.
    request: { environment: "dev", failed: true, operation: "auth.expire" },
    other: { environment: "dev", operation: "auth.expire" },
  },
];

/** Expired and not refreshable, so that a failure is logged. */
const deadConnection = (id: string) => ({
  provider_config_key: "calendar",
  connection_id: id,
  credentials: { type: "OAUTH2", access_token: "t", expires_at: "2020-01-01T00:00:00Z" },
});

async function fill(): Promise<void> {
  const { client, rest } = running();
  for (let i = 0; i < 7; i += 1) {
    await rest("POST", "/connections", { body: keyedConnection(`l-${i}`, { tags: { set: "x" } }) });
    await rest("POST", "/connections", { body: deadConnection(`d-${i}`) });
    await client(EnvironmentService).createKey({ environment: "dev", id: `l-${i}`, scopes: [Scope.PROXY] });
    await client(IntegrationService)
      .createIntegration({ integration: { environment: "dev", key: `l-${i}`, provider: "calendar" } })
      // Filled once for all tests of this file.
      .catch(() => undefined);
  }
}
let filled: Promise<void> | undefined;
const isFilled = () => {
  filled ??= fill();
  return filled;
};

const page = (method: string, request: Plain) => post(running().control, method, request);

it.each(lists)(
  "turns the pages of $method ($request), each thing on one of them",
  async ({ method, field, nameOf, request = {} }) => {
    await isFilled();
    const { body: whole } = await page(method, { ...request, pageSize: 1_000 });
    const all = whole[field].map(nameOf);
    expect(all.length).toBeGreaterThanOrEqual(7);
    expect(whole["nextPageToken"]).toBeUndefined();

    const seen: string[] = [];
    let token = "";
    let pages = 0;
    do {
      const { status, body } = await page(method, { ...request, pageSize: 3, pageToken: token });
      expect(status).toBe(200);
      expect(body[field]?.length).toBeLessThanOrEqual(3);
      seen.push(...body[field].map(nameOf));
      token = body["nextPageToken"] ?? "";
      pages += 1;
    } while (token !== "");
    expect(seen).toEqual(all);
    expect(pages).toBe(Math.ceil(all.length / 3));
  },
);

it.each(lists)(
  "takes no page token of another question in $method ($request)",
  async ({ method, request = {}, other }) => {
    await isFilled();
    const { body } = await page(method, { ...request, pageSize: 3 });
    const pageToken = body["nextPageToken"];
    for (const wrong of [
      { ...other, pageToken },
      { ...request, pageToken: "nonsense" },
      { ...request, pageToken: `AAAA${pageToken.slice(4)}` },
    ]) {
      const refused = await page(method, wrong);
      expect({ wrong, status: refused.status }).toEqual({ wrong, status: 400 });
      expect(detailsIn(refused.body).reason).toBe("invalid_query_params");
    }
  },
);

it.each(lists)(
  "takes no page size below nought or beyond the limit in $method ($request)",
  async ({ method, request = {} }) => {
    for (const pageSize of [-1, 10_001]) {
      const { status, body } = await page(method, { ...request, pageSize });
      expect({ pageSize, status, fields: detailsIn(body).fields }).toEqual({
        pageSize,
        status: 400,
        fields: ["page_size"],
      });
    }
  },
);

it("continues at its position, although the last entry of the page was deleted", async () => {
  await isFilled();
  const { rest } = running();
  for (let i = 0; i < 4; i += 1) {
    await rest("POST", "/connections", { body: keyedConnection(`gone-${i}`, { tags: { set: "gone" } }) });
  }
  const request = { environment: "dev", filter: { tags: { set: "gone" } }, pageSize: 2 };
  const { body: first } = await page("ConnectionService/ListConnections", request);
  await rest("DELETE", "/connections/gone-1?provider_config_key=keyed");
  const { body: second } = await page("ConnectionService/ListConnections", {
    ...request,
    pageToken: first["nextPageToken"],
  });
  expect(second["connections"].map(({ ref }: Plain) => ref.id)).toEqual(["gone-2", "gone-3"]);
});
