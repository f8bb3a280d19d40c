import { expect, it } from "vitest";
import { sidecarOfFile } from "../../support/sidecar/door.ts";
import { keyedConnection } from "../../support/sidecar/harness.ts";
import { detailsIn, type Plain, post } from "./foreign.ts";

const running = sidecarOfFile();

async function call(method: string, body: Plain): Promise<Plain> {
  const { status, body: answer } = await post(running().control, method, body);
  expect({ method, status, message: answer["message"] }).toEqual({ method, status: 200, message: undefined });
  return answer;
}

const refTo = (id: string): Plain => ({ environment: "dev", integration: "keyed", id });
const imported = (id: string, more: Plain = {}) =>
  running().rest("POST", "/connections", { body: keyedConnection(id, more) });

const provider = (name: string): Plain => ({
  name,
  displayName: name,
  apiKey: { header: "x-key" },
  proxy: { baseUrl: "https://api.example.com" },
});

interface Write {
  readonly method: string;
  /** Makes something to change, and returns its revision. */
  readonly make: (name: string) => Promise<Plain>;
  /** The write, without the revision that it expects. */
  readonly request: (name: string) => Plain;
  readonly revisionOf: (name: string) => Promise<string | undefined>;
}

const connectionRevision = async (id: string) =>
  (await post(running().control, "ConnectionService/GetConnection", { ref: refTo(id) })).body["connection"]?.revision;
const integrationRevision = async (key: string) =>
  (await post(running().control, "IntegrationService/GetIntegration", { environment: "dev", key })).body["integration"]
    ?.revision;
const providerRevision = async (name: string) =>
  (await post(running().control, "ProviderService/GetProvider", { name })).body["provider"]?.revision;
const environmentRevision = async (name: string) =>
  (await post(running().control, "EnvironmentService/GetEnvironment", { name })).body["environment"]?.revision;
const keyRevision = async (id: string) => {
  const { body } = await post(running().control, "EnvironmentService/ListKeys", {
    environment: "dev",
    pageSize: 1_000,
  });
  return body["keys"].find((key: Plain) => key["id"] === id)?.revision;
};

const newIntegration = (key: string) =>
  call("IntegrationService/CreateIntegration", { integration: { environment: "dev", key, provider: "calendar" } });
const newProvider = (name: string) => call("ProviderService/CreateProvider", { provider: provider(name) });
const newEnvironment = (name: string) => call("EnvironmentService/CreateEnvironment", { name });
const newKey = (id: string) => call("EnvironmentService/CreateKey", { environment: "dev", id });

/** Every method with `expected_revision`. */
const writes: readonly Write[] = [
  {
    method: "ConnectionService/UpdateConnection",
    make: imported,
    request: (id) => ({ connection: { ref: refTo(id), tags: { a: "b" } }, updateMask: "tags" }),
    revisionOf: connectionRevision,
  },
  {
    method: "ConnectionService/UpdateMetadata",
    make: imported,
    request: (id) => ({ ref: refTo(id), metadata: { a: 1 } }),
    revisionOf: connectionRevision,
  },
  {
    method: "ConnectionService/DeleteConnection",
    make: imported,
    request: (id) => ({ ref: refTo(id) }),
    revisionOf: connectionRevision,
  },
  {
    method: "IntegrationService/UpdateIntegration",
    make: newIntegration,
    request: (key) => ({
      integration: { environment: "dev", key, provider: "calendar", displayName: "x" },
      updateMask: "displayName",
    }),
    revisionOf: integrationRevision,
  },
  {
    method: "IntegrationService/DeleteIntegration",
    make: newIntegration,
    request: (key) => ({ environment: "dev", key }),
    revisionOf: integrationRevision,
  },
  {
    method: "ProviderService/UpdateProvider",
    make: newProvider,
    request: (name) => ({ provider: { ...provider(name), displayName: "another" } }),
    revisionOf: providerRevision,
  },
  {
    method: "ProviderService/DeleteProvider",
    make: newProvider,
    request: (name) => ({ name }),
    revisionOf: providerRevision,
  },
  {
    method: "EnvironmentService/UpdateEnvironment",
    make: newEnvironment,
    request: (name) => ({
      environment: { name, forwardUrl: "https://app.example.com/hooks" },
      updateMask: "forwardUrl",
    }),
    revisionOf: environmentRevision,
  },
  {
    method: "EnvironmentService/DeleteEnvironment",
    make: newEnvironment,
    request: (name) => ({ name }),
    revisionOf: environmentRevision,
  },
  {
    method: "EnvironmentService/RevokeKey",
    make: newKey,
    request: (id) => ({ id }),
    revisionOf: keyRevision,
  },
];

it.each(writes)(
  "G17 refuses $method at another revision than the one expected",
  async ({ method, make, request, revisionOf }) => {
    const name = `at-${method.split("/")[1]?.toLowerCase()}`;
    await make(name);
    const revision = await revisionOf(name);
    expect(Number(revision)).toBeGreaterThan(0);

    const stale = String(Number(revision) - 1);
    const refused = await post(running().control, method, { ...request(name), expectedRevision: stale });
    expect([refused.status, refused.body["code"]]).toEqual([409, "aborted"]);
    expect(detailsIn(refused.body)).toMatchObject({ reason: "conflict", metadata: { current_revision: revision } });
    expect(await revisionOf(name)).toBe(revision);

    await call(method, { ...request(name), expectedRevision: revision });
    const after = await revisionOf(name);
    // Changed, or gone.
    expect(after === undefined || Number(after) > Number(revision)).toBe(true);
  },
);

it("accepts one of two writes on the same revision", async () => {
  await imported("raced");
  const revision = await connectionRevision("raced");
  const race = await Promise.all(
    Array.from({ length: 20 }, (_, i) =>
      post(running().control, "ConnectionService/UpdateMetadata", {
        ref: refTo("raced"),
        metadata: { [`k${i}`]: i },
        expectedRevision: revision,
      }),
    ),
  );
  expect(race.map(({ status }) => status).sort()).toEqual([200, ...Array.from({ length: 19 }, () => 409)]);
});

it("changes only the fields of the mask", async () => {
  await imported("masked", { tags: { old: "x" }, end_user: { id: "u1", email: "u1@example.com" } });
  const change = {
    ref: refTo("masked"),
    tags: { fresh: "y" },
    endUser: { id: "u2" },
    webhookUrlOverride: "https://app.example.com/hooks",
  };
  const { connection: tagged } = await call("ConnectionService/UpdateConnection", {
    connection: change,
    updateMask: "tags",
  });
  expect(tagged.tags).toEqual({ fresh: "y", end_user_id: "u1", end_user_email: "u1@example.com" });
  expect(tagged.endUser).toMatchObject({ id: "u1" });
  expect(tagged.webhookUrlOverride).toBeUndefined();

  const both = { connection: change, updateMask: "endUser,webhookUrlOverride" };
  const { connection: changed } = await call("ConnectionService/UpdateConnection", both);
  expect(changed).toMatchObject({ endUser: { id: "u2" }, webhookUrlOverride: "https://app.example.com/hooks" });
  expect(changed.tags).toEqual({ fresh: "y", end_user_id: "u2" });

  const cleared = { connection: { ref: refTo("masked") }, updateMask: "tags,endUser,webhookUrlOverride" };
  const { connection: bare } = await call("ConnectionService/UpdateConnection", cleared);
  expect([bare.tags, bare.endUser, bare.webhookUrlOverride]).toEqual([undefined, undefined, undefined]);
});

it.each([
  ["a connection", "ConnectionService/UpdateConnection", { connection: { ref: refTo("masks") } }],
  [
    "an integration",
    "IntegrationService/UpdateIntegration",
    { integration: { environment: "dev", key: "keyed", provider: "x" } },
  ],
])("refuses a mask for %s that is empty, or names read-only fields", async (_what, method, request) => {
  await imported("masks");
  for (const updateMask of [
    undefined,
    "",
    "provider",
    "createdAt",
    "tags,revision",
    "nope",
    "__proto__",
    "constructor",
  ]) {
    const { status, body } = await post(running().control, method, {
      ...request,
      ...(updateMask === undefined ? {} : { updateMask }),
    });
    expect({ updateMask, status, code: body["code"] }).toEqual({ updateMask, status: 400, code: "invalid_argument" });
  }
});

it("changes an integration's secrets one by one, and leaves the others", async () => {
  const secrets = { clientSecret: "one", webhookSecret: "two" };
  const integration = { environment: "dev", key: "secretive", provider: "calendar" };
  await call("IntegrationService/CreateIntegration", { integration: { ...integration, secrets } });
  await call("IntegrationService/UpdateIntegration", {
    integration: { ...integration, secrets: { webhookSecret: "three" } },
    updateMask: "secrets.webhookSecret",
  });
  const shown = () =>
    call("IntegrationService/GetIntegration", { environment: "dev", key: "secretive", includeSecrets: true });
  expect((await shown())["integration"].secrets).toEqual({ clientSecret: "one", webhookSecret: "three" });
  await call("IntegrationService/UpdateIntegration", { integration, updateMask: "secrets" });
  expect((await shown())["integration"].secrets ?? {}).toEqual({});
});

it("merges or replaces metadata on request", async () => {
  await imported("merged", { metadata: { a: 1, b: { c: 2 } } });
  const update = (more: Plain) => call("ConnectionService/UpdateMetadata", { ref: refTo("merged"), ...more });
  expect((await update({ metadata: { b: null, d: 3 } }))["connection"].metadata).toEqual({ a: 1, b: null, d: 3 });
  expect((await update({ metadata: { e: 4 }, replace: true }))["connection"].metadata).toEqual({ e: 4 });
  const { revision: before } = (await call("ConnectionService/GetConnection", { ref: refTo("merged") }))["connection"];
  expect((await update({ metadata: {} }))["connection"].revision).toBe(before);
});
