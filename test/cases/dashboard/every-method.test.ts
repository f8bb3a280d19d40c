import { type DescMessage, type DescMethod, getOption, hasOption } from "@bufbuild/protobuf";
import { FieldOptionsSchema } from "@bufbuild/protobuf/wkt";
import { beforeAll, expect, it } from "vitest";
import { services } from "../../../src/control-plane/services/services.ts";
import { scopesByName } from "../../../src/core/scopes.ts";
import { Scope, scope } from "../../../src/gen/latchkey/v1/access_pb.ts";
import { EnvironmentService } from "../../../src/gen/latchkey/v1/environment_pb.ts";
import { IntegrationService } from "../../../src/gen/latchkey/v1/integration_pb.ts";
import { LogService } from "../../../src/gen/latchkey/v1/log_pb.ts";
import { rpc, type SignedIn, signIn } from "../../support/dashboard/signed-in.ts";
import { keyWith, sidecarOfFile } from "../../support/sidecar/door.ts";
import { adminKey, secretKey } from "../../support/sidecar/harness.ts";
import { openSession, streamed } from "../../support/wire/http2-call.ts";

const sidecar = sidecarOfFile({ env: { LATCHKEY_UI: "on" } });
const methods = services.flatMap((service) => service.methods);
const nameOf = ({ parent, name }: DescMethod) => `${parent.name}/${name}`;
const scopes = [...scopesByName.values()];

let sessions: ReadonlyMap<Scope, SignedIn>;
beforeAll(async () => {
  const { control } = sidecar();
  const keys = await Promise.all(
    scopes.map(async (one) => [one, one === Scope.ADMIN ? adminKey : await keyWith(sidecar(), one)] as const),
  );
  sessions = new Map(await Promise.all(keys.map(async ([one, key]) => [one, await signIn(control, { key })] as const)));
});

/** Sends a body that no method can read: the head is judged first, and nothing is done. Returns our name of the error. */
async function judged(method: DescMethod, headers: Readonly<Record<string, string>>): Promise<string> {
  const isUnary = method.methodKind === "unary";
  const path = `/${method.parent.typeName}/${method.name}`;
  const type = { "content-type": isUnary ? "application/json" : "application/connect+json" };
  const body = isUnary ? "?" : Buffer.from([0, 0, 0, 0, 1, 63]);
  if (method.methodKind === "bidi_streaming") {
    const all = { ...type, ...headers, ":authority": new URL(sidecar().control).host };
    const { body: text } = await streamed(await openSession(sidecar().control), path, { headers: all, body });
    return nameIn(text);
  }
  const response = await fetch(`${sidecar().control}${path}`, {
    method: "POST",
    headers: { ...type, ...headers },
    body,
  });
  const text = await response.text();
  return response.headers.get("latchkey-error") ?? nameIn(text);
}

const nameIn = (text: string): string => /"latchkey-error":\["(\w+)"\]/.exec(text)?.[1] ?? text;

it("asks every method for both secrets of a session, and for its scope", async () => {
  const any = sessions.get(Scope.ADMIN);
  if (any === undefined) throw new Error("there is no session");
  const { cookie, secret, origin } = any;
  const page = { origin, "sec-fetch-site": "same-origin" };
  const wrong: string[] = [];
  await Promise.all(
    methods.map(async (method) => {
      const expectation = async (what: string, headers: Readonly<Record<string, string>>, expected: string) => {
        const found = await judged(method, headers);
        if (found !== expected) wrong.push(`${nameOf(method)} ${what}: ${found}, not ${expected}`);
      };
      await expectation("without anything", page, "missing_auth_header");
      await expectation("with the cookie alone", { ...page, cookie }, "signed_out");
      await expectation("with the secret alone", { ...page, "latchkey-session": secret }, "signed_out");
      await expectation("from another port", { ...any.headers, "sec-fetch-site": "same-site" }, "origin_not_allowed");
      const needed = getOption(method, scope);
      const other = needed === Scope.CONNECTIONS_READ ? Scope.SYNCS : Scope.CONNECTIONS_READ;
      for (const own of new Set([needed === Scope.UNSPECIFIED ? other : needed, other, Scope.ADMIN])) {
        const { headers } = sessions.get(own) ?? any;
        const may = needed === Scope.UNSPECIFIED || own === Scope.ADMIN || own === needed;
        const refusal = needed === Scope.CREDENTIALS_READ ? "key_required" : "missing_scope";
        const needsKey = needed === Scope.CREDENTIALS_READ || needed === Scope.EDGE;
        await expectation(`with scope ${own}`, headers, may && !needsKey ? "invalid_body" : refusal);
      }
    }),
  );
  expect(wrong).toEqual([]);
  expect(methods.filter((method) => !hasOption(method, scope))).toEqual([]);
});

/** Names another environment wherever a message can. */
function namingAnother(desc: DescMessage, depth = 0): Record<string, unknown> {
  return Object.fromEntries(
    desc.fields.flatMap((field): [string, unknown][] => {
      if (field.name === "environment" && field.fieldKind === "scalar") return [["environment", "prod"]];
      const isPlace = ["integration", "key", "id", "connection_id", "name"].includes(field.name);
      if (isPlace && field.fieldKind === "scalar" && field.scalar === 9) return [[field.localName, "files"]];
      if (field.fieldKind !== "message" || depth > 1 || field.message.file.name.startsWith("google/")) return [];
      const inner = namingAnother(field.message, depth + 1);
      return "environment" in inner ? [[field.localName, inner]] : [];
    }),
  );
}

it("opens nothing of another environment, whatever the method", async () => {
  const { control, client } = sidecar();
  await client(EnvironmentService).createEnvironment({ name: "prod" });
  await client(IntegrationService).createIntegration({
    integration: { environment: "prod", key: "files", provider: "example-api-key" },
  });
  const { headers } = await signIn(control, { key: secretKey });
  const opened: string[] = [];
  const asked = methods.filter(({ methodKind, input }) => {
    return methodKind === "unary" && JSON.stringify(namingAnother(input)).includes("prod");
  });
  for (const method of asked) {
    const { status, body } = await rpc(control, nameOf(method), headers, namingAnother(method.input));
    const problems = JSON.stringify(body).match(/"code":"\w+"/g) ?? [];
    if (status === 200 && problems.length === 0) opened.push(nameOf(method));
  }
  expect(opened).toEqual([]);
  expect(asked.length).toBeGreaterThan(30);
});

/** Whether a message can hold a field that must not be shown. */
function holdsSecrets(desc: DescMessage, seen = new Set<DescMessage>()): boolean {
  if (seen.has(desc)) return false;
  seen.add(desc);
  return desc.fields.some(
    (field) =>
      (field.proto.options !== undefined &&
        field.proto.options.$typeName === FieldOptionsSchema.typeName &&
        field.proto.options.debugRedact) ||
      (field.message !== undefined && holdsSecrets(field.message, seen)),
  );
}

/** Every method whose answer can hold a secret, and why a session may call it. A new one must be thought about. */
const showing: Readonly<Record<string, "never filled" | "made by this call" | "needs the key" | "refused" | "public">> =
  {
    "AccessSessionService/CreateAccessSession": "needs the key",
    "ConnectSessionService/CreateConnectSession": "made by this call",
    "ConnectionService/GetConnection": "needs the key",
    "EdgeService/Follow": "refused",
    "EnvironmentService/CreateKey": "made by this call",
    "EnvironmentService/ListSigningSecrets": "needs the key",
    "EnvironmentService/RotateKey": "made by this call",
    "EnvironmentService/RotateSigningSecret": "made by this call",
    "IntegrationService/CreateIntegration": "never filled",
    "IntegrationService/DiscoverIntegration": "never filled",
    "IntegrationService/GetIntegration": "needs the key",
    "IntegrationService/ListIntegrations": "never filled",
    "IntegrationService/UpdateIntegration": "never filled",
    "IntegrationService/WatchIntegrations": "never filled",
    "ProviderService/CheckProvider": "public",
    "ProviderService/CreateProvider": "public",
    "ProviderService/GetProvider": "public",
    "ProviderService/ListProviders": "public",
    "ProviderService/UpdateProvider": "public",
    "SignInService/CreateSignInLink": "needs the key",
  };

it("shows secrets only with the key itself, and notes that in the audit trail", async () => {
  const { control, client } = sidecar();
  expect(
    methods
      .filter(({ output }) => holdsSecrets(output))
      .map(nameOf)
      .sort(),
  ).toEqual(Object.keys(showing).sort());

  const { headers } = await signIn(control, { key: adminKey });
  const environment = "dev";
  await client(IntegrationService).createIntegration({
    integration: { environment, key: "shown", provider: "example-api-key" },
  });
  const reads = {
    "ConnectionService/GetConnection": {
      ref: { environment, integration: "shown", id: "ada" },
      includeCredentials: true,
    },
    "IntegrationService/GetIntegration": { environment, key: "shown", includeSecrets: true },
    "EnvironmentService/ListSigningSecrets": { environment, reveal: true },
  };
  const imported = await rpc(control, "ConnectionService/ImportConnection", headers, {
    connection: {
      environment,
      integration: "shown",
      id: "ada",
      credentials: { apiKey: { apiKey: "a-secret-of-ada" } },
    },
  });
  expect(imported.error).toBeNull();
  for (const [method, message] of Object.entries(reads)) {
    const refused = await rpc(control, method, headers, message);
    expect({ method, ...refused }).toMatchObject({ method, status: 403, error: "key_required" });
    expect(JSON.stringify(refused.body)).not.toContain("a-secret-of-ada");
    const key = { authorization: `Bearer ${adminKey}` };
    expect((await rpc(control, method, { ...headers, ...key }, message)).status).toBe(200);
    // A service reads all the time, without a browser: that is not noted.
    expect((await rpc(control, method, key, message)).status).toBe(200);
  }
  const { events } = await client(LogService).listAuditEvents({ environment });
  const noted = events.filter(({ action }) => action.endsWith(".reveal"));
  expect(noted.map(({ action, actor, targets }) => [action, actor, ...targets]).sort()).toEqual([
    ["credentials.reveal", "admin-key", "shown/ada"],
    ["integration_secrets.reveal", "admin-key", "shown"],
    ["signing_secret.reveal", "admin-key", "dev"],
  ]);
  // A key without the permission does not become one that has it by coming from a page.
  const weak = { authorization: `Bearer ${await keyWith(sidecar(), Scope.CONNECTIONS_READ)}` };
  const lacking = await rpc(
    control,
    "ConnectionService/GetConnection",
    { ...headers, ...weak },
    reads["ConnectionService/GetConnection"],
  );
  expect(lacking.error).toBe("missing_scope");
});
