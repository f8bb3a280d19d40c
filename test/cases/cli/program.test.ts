import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import type { AddressInfo } from "node:net";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Code, ConnectError, type ConnectRouter } from "@connectrpc/connect";
import { expect, it, onTestFinished } from "vitest";
import type { OwnCommand } from "../../../src/cli/process/own-command.ts";
import { runCli } from "../../../src/cli/program.ts";
import { BadRequestSchema, ErrorInfoSchema } from "../../../src/gen/google/rpc/error_details_pb.ts";
import { Health, HealthCheckResponse_ServingStatus } from "../../../src/gen/grpc/health/v1/health_pb.ts";
import {
  Connection_State,
  ConnectionService,
  type UpdateConnectionRequest,
} from "../../../src/gen/latchkey/v1/connection_pb.ts";
import {
  type CreateKeyRequest,
  EnvironmentService,
  type UpdateEnvironmentRequest,
} from "../../../src/gen/latchkey/v1/environment_pb.ts";
import {
  type CreateIntegrationRequest,
  Integration_UseRecord,
  IntegrationService,
  type UpdateIntegrationRequest,
} from "../../../src/gen/latchkey/v1/integration_pb.ts";
import { LogService } from "../../../src/gen/latchkey/v1/log_pb.ts";
import { type CreateProviderRequest, ProviderService } from "../../../src/gen/latchkey/v1/provider_pb.ts";
import { WatchMarker_Kind } from "../../../src/gen/latchkey/v1/watch_pb.ts";
import { fakeControl } from "./fake-control.ts";
import { memoryTerminal } from "./memory-terminal.ts";

interface Setting {
  readonly env?: Readonly<Record<string, string>>;
  readonly stdin?: string;
  readonly isTerminal?: boolean;
  readonly signal?: AbortSignal;
}

async function latchkey(argv: readonly string[], setting: Setting = {}, own: readonly OwnCommand[] = []) {
  const terminal = memoryTerminal(setting);
  const code = await runCli(argv, terminal, own);
  return { code, out: terminal.out(), err: terminal.err() };
}

const folder = await mkdtemp(join(tmpdir(), "latchkey-cli-"));
// Away from the folder of the sources, where `latchkey dev` may have left a key.
process.chdir(folder);

async function fileOf(text: string): Promise<string> {
  const path = join(folder, String(Math.random()));
  await writeFile(path, text);
  return path;
}

/** Runs commands against a control plane that answers so. */
async function against(routes: (router: ConnectRouter) => void) {
  const { address } = await fakeControl(routes);
  return (argv: readonly string[], setting: Setting = {}) => latchkey([...argv, "--address", address], setting);
}

const ref = (id: string) => ({ environment: "prod", integration: "calendar", id });

it("lists in a table for a person and one object a line for a program", async () => {
  const run = await against((router) =>
    router.service(EnvironmentService, {
      listEnvironments: () => ({
        environments: [
          { name: "dev", forwardUrl: "https://app/hooks" },
          { name: "prod", declared: true },
        ],
      }),
    }),
  );
  expect((await run(["environments", "list"])).out).toBe(
    [
      "NAME  FORWARD URL        DECLARED  CREATED",
      "dev   https://app/hooks  -         -",
      "prod  -                  yes       -",
      "",
    ].join("\n"),
  );
  const { out } = await run(["environments", "list", "--json"]);
  expect(out).toBe('{"name":"dev","forward_url":"https://app/hooks"}\n{"name":"prod","declared":true}\n');
});

it("shows one object as key: value, and as JSON by protobuf's field names", async () => {
  const run = await against((router) =>
    router.service(EnvironmentService, {
      getEnvironment: ({ name }) => ({
        environment: { name: name || "own", forwardUrl: "https://a", allowedOrigins: ["https://b"] },
      }),
    }),
  );
  expect((await run(["environments", "get"])).out).toBe(
    "name: own\nforward_url: https://a\nallowed_origins:\n  - https://b\n",
  );
  expect((await run(["environments", "get", "prod", "--json"])).out).toBe(
    '{"name":"prod","forward_url":"https://a","allowed_origins":["https://b"]}\n',
  );
});

it("sends a logo as a data: URI, and does not print it on a terminal", async () => {
  const run = await against((router) =>
    router.service(EnvironmentService, {
      updateEnvironment: ({ environment = {} }) => ({ environment }),
    }),
  );
  const folder = await mkdtemp(join(tmpdir(), "latchkey-logo-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  const file = join(folder, "logo.PNG");
  await writeFile(file, "some bytes");
  const uri = "data:image/png;base64,c29tZSBieXRlcw==";
  const update = ["environments", "update", "prod", "--logo", file];
  expect((await run(update)).out).toBe(`name: prod\nbranding:\n  logo: ${uri}\n`);
  const shown = (await run(update, { isTerminal: true })).out;
  expect(shown).toContain("logo: data:image/png;base64,… (38 characters)");
  expect(shown).not.toContain("c29tZSBieXRlcw");
  expect((await run(["environments", "update", "prod", "--logo", join(folder, "none.svg")])).code).toBe(2);
});

it("sends the given key, and prefers options to the environment", async () => {
  const seen: (string | null)[] = [];
  const run = await against((router) =>
    router.service(EnvironmentService, {
      listEnvironments(_request, { requestHeader }) {
        seen.push(requestHeader.get("authorization"));
        return {};
      },
    }),
  );
  const env = { LATCHKEY_KEY: "lk_env", LATCHKEY_ADMIN_KEY: "lk_admin" };
  const file = await fileOf("lk_file\n");
  const list = ["environments", "list"];
  await run([...list, "--key", "lk_typed", "--key-file", file], { env });
  await run([...list, "--key-file", file], { env });
  await run(list, { env });
  await run(list, { env: { LATCHKEY_ADMIN_KEY: "lk_admin" } });
  await run(list, { env: { LATCHKEY_ADMIN_KEY_FILE: file } });
  await run(list);
  expect(seen).toEqual([...["typed", "file", "env", "admin", "file"].map((key) => `Bearer lk_${key}`), null]);
});

it("finds the key in this folder, or beside the given store", async () => {
  const seen: (string | null)[] = [];
  const run = await against((router) =>
    router.service(Health, {
      check(_request, { requestHeader }) {
        seen.push(requestHeader.get("authorization"));
        return { status: 1 };
      },
    }),
  );
  const here = await mkdtemp(join(folder, "here-"));
  process.chdir(here);
  onTestFinished(() => process.chdir(folder));
  await mkdir(join(here, ".latchkey"));
  await writeFile(join(here, ".latchkey", "admin-key"), "lk_here\n");
  await writeFile(join(folder, "admin-key"), "lk_there\n");
  await run(["health"]);
  await run(["health"], { env: { LATCHKEY_STORE: `level:${folder}` } });
  expect(seen).toEqual(["Bearer lk_here", "Bearer lk_there"]);
});

it("finds the control plane and the environment in the environment's variables", async () => {
  const { address } = await fakeControl((router) =>
    router.service(IntegrationService, {
      listIntegrations: ({ environment }) => ({ integrations: [{ environment, key: "k", provider: "p" }] }),
    }),
  );
  const env = { LATCHKEY_CONTROL: address, LATCHKEY_ENVIRONMENT: "staging" };
  expect((await latchkey(["integrations", "list", "--json"], { env })).out).toContain('"environment":"staging"');
  expect((await latchkey(["-e", "prod", "integrations", "list", "--json"], { env })).out).toContain(
    '"environment":"prod"',
  );
  expect((await latchkey(["integrations", "list", "--json", "-e", ""], { env })).out).not.toContain("environment");
});

it("requests pages until it has the requested number", async () => {
  const asked: number[] = [];
  const run = await against((router) =>
    router.service(ConnectionService, {
      listConnections({ pageSize, pageToken, filter }) {
        asked.push(pageSize);
        expect(filter).toMatchObject({
          integrations: ["a", "b"],
          tags: { team: "red", plan: "x=y" },
          search: "ada",
          id: "",
        });
        const page = Number(pageToken || 0);
        const size = Math.min(pageSize, 60);
        // A page may be empty and not be the last one.
        const connections = page === 1 ? [] : Array.from({ length: size }, (_, at) => ({ ref: ref(`c${page}-${at}`) }));
        return { connections, nextPageToken: page === 4 ? "" : String(page + 1) };
      },
    }),
  );
  const filter = [
    "--integration",
    "a",
    "--integration",
    "b",
    "--tag",
    "team=red",
    "--tag",
    "plan=x=y",
    "--search",
    "ada",
  ];
  const count = (out: string) => out.trimEnd().split("\n").length;
  const first = await run(["connections", "list", "--json", ...filter]);
  expect(count(first.out)).toBe(100);
  expect(first.err).toContain("Showing the first 100; there may be more.");
  expect(asked).toEqual([100, 40, 40]);
  const all = await run(["connections", "list", "--json", "--all", ...filter]);
  expect({ lines: count(all.out), err: all.err }).toEqual({ lines: 240, err: "" });
  expect(count((await run(["connections", "list", "--json", "--limit", "7", ...filter])).out)).toBe(7);
});

it("K07 shows an id that would act upon the terminal as text", async () => {
  const run = await against((router) =>
    router.service(ConnectionService, {
      listConnections: () => ({
        connections: [{ ref: ref('\x1b[2J\n{"level":"fatal"}'), state: Connection_State.ACTIVE }],
      }),
      getConnection: () => ({ connection: { ref: ref("\x1b]0;x\x07\u009b1m"), metadata: { a: "\x1b[31m" } } }),
    }),
  );
  const list = await run(["connections", "list"], { isTerminal: true, env: { NO_COLOR: "1" } });
  expect(list.out.split("\n")).toHaveLength(3);
  const shown = [list, await run(["connections", "get", "a/b"]), await run(["connections", "get", "a/b", "--json"])];
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what must not be there.
  for (const { out } of shown) expect(out).not.toMatch(/[\x00-\x09\x0b-\x1f\x7f-\x9f]/);
});

it("shows credentials on request, and otherwise does not fetch them", async () => {
  const asked: unknown[] = [];
  const run = await against((router) =>
    router.service(ConnectionService, {
      getConnection({ ref: asking, includeCredentials, includeRefreshToken }) {
        asked.push([asking?.integration, asking?.id, includeCredentials, includeRefreshToken]);
        const credentials = { kind: { case: "apiKey" as const, value: { apiKey: "k-123" } } };
        return { connection: { ref: ref("a/b") }, ...(includeCredentials ? { credentials } : {}) };
      },
    }),
  );
  expect((await run(["connections", "get", "calendar/a/b"])).out).not.toContain("k-123");
  expect((await run(["connections", "get", "calendar/a/b", "--credentials"])).out).toContain("api_key: k-123");
  expect((await run(["connections", "get", "calendar/a/b", "--refresh-token"])).code).toBe(2);
  expect(asked).toEqual([
    ["calendar", "a/b", false, false],
    ["calendar", "a/b", true, false],
  ]);
});

it("changes only the given fields", async () => {
  const requests: UpdateConnectionRequest[] = [];
  const environments: UpdateEnvironmentRequest[] = [];
  const run = await against((router) => {
    router.service(ConnectionService, {
      updateConnection(request) {
        requests.push(request);
        return { connection: { ref: ref("ada") } };
      },
    });
    router.service(EnvironmentService, {
      updateEnvironment(request) {
        environments.push(request);
        return { environment: { name: "prod" } };
      },
    });
  });
  await run(["connections", "update", "calendar/ada", "--tag", "a=1", "--tag", "b=2", "--expected-revision", "7"]);
  await run(["connections", "update", "calendar/ada", "--no-tags", "--webhook-url-override", ""]);
  await run(["connections", "update", "calendar/ada", "--connection-config", "-"], { stdin: '{"subdomain":"x"}' });
  expect(requests.map(({ updateMask }) => updateMask?.paths)).toEqual([
    ["tags"],
    ["tags", "webhook_url_override"],
    ["connection_config"],
  ]);
  expect(requests[0]).toMatchObject({ connection: { tags: { a: "1", b: "2" } }, expectedRevision: 7n });
  expect(requests[1]).toMatchObject({ connection: { tags: {}, webhookUrlOverride: "" } });
  expect(requests[2]).toMatchObject({ connection: { connectionConfig: { subdomain: "x" } } });
  expect((await run(["connections", "update", "calendar/ada"])).code).toBe(2);

  await run(["environments", "update", "prod", "--no-allowed-origins"]);
  await run(["environments", "update", "prod", "--allowed-origin", "https://a", "--allowed-origin", "https://b"]);
  expect(environments.map(({ updateMask, environment }) => [updateMask?.paths, environment?.allowedOrigins])).toEqual([
    [["allowed_origins"], []],
    [["allowed_origins"], ["https://a", "https://b"]],
  ]);
  environments.length = 0;
  await run(["environments", "update", "prod", "--brand-name", "Acme", "--support-url", "https://acme.example"]);
  await run(["environments", "update", "prod", "--no-branding"]);
  expect(environments.map(({ updateMask, environment }) => [updateMask?.paths, environment?.branding])).toMatchObject([
    [["branding.name", "branding.support_url"], { name: "Acme", supportUrl: "https://acme.example" }],
    [["branding"], { name: "", supportUrl: "" }],
  ]);
  expect((await run(["environments", "update", "prod", "--logo", "logo.gif"])).code).toBe(2);
  expect((await run(["environments", "update", "prod"])).code).toBe(2);
});

it("merges and replaces metadata from an argument, a file or a pipe", async () => {
  const requests: unknown[] = [];
  const run = await against((router) =>
    router.service(ConnectionService, {
      updateMetadata({ metadata, replace }) {
        requests.push([metadata, replace]);
        return { connection: { ref: ref("ada"), metadata: metadata ?? {} } };
      },
      getConnection: () => ({ connection: { ref: ref("ada"), metadata: { email: "ada@example.com" } } }),
    }),
  );
  const file = await fileOf('\ufeff{"b":null}');
  expect((await run(["connections", "metadata", "merge", "calendar/ada", '{"a":1}', "--json"])).out).toBe('{"a":1}\n');
  await run(["connections", "metadata", "set", "calendar/ada", `@${file}`]);
  await run(["connections", "metadata", "set", "calendar/ada", "-"], { stdin: '{"c":[]}' });
  expect(requests).toEqual([
    [{ a: 1 }, false],
    [{ b: null }, true],
    [{ c: [] }, true],
  ]);
  expect((await run(["connections", "metadata", "get", "calendar/ada"])).out).toBe(
    '{\n  "email": "ada@example.com"\n}\n',
  );
  expect(await run(["connections", "metadata", "set", "calendar/ada", "{s3cr3t"])).toMatchObject({
    code: 2,
    err: "latchkey: the argument is not JSON\n",
  });
  expect((await run(["connections", "metadata", "set", "calendar/ada", "[]"])).code).toBe(2);
});

it("deletes several connections each for itself, and exits with 3 when some remain", async () => {
  const run = await against((router) =>
    router.service(ConnectionService, {
      deleteConnection: () => ({}),
      batchDeleteConnections: ({ deletions }) => ({
        results: deletions
          .flatMap(({ ref: one }) => one ?? [])
          .map((one) =>
            one.id === "b"
              ? { ref: one, problem: { code: "unknown_connection", message: "there is none" } }
              : { ref: one },
          ),
      }),
    }),
  );
  expect(await run(["connections", "delete", "calendar/a"])).toEqual({
    code: 0,
    out: "deleted connection calendar/a\n",
    err: "",
  });
  const { code, out } = await run(["connections", "delete", "calendar/a", "calendar/b"]);
  expect(code).toBe(3);
  expect(out).toBe("deleted connection calendar/a\nkept calendar/b: there is none (unknown_connection)\n");
});

it("shows a new key's secret once, and creates it with the given options", async () => {
  const requests: CreateKeyRequest[] = [];
  const run = await against((router) =>
    router.service(EnvironmentService, {
      createKey(request) {
        requests.push(request);
        return { key: { id: request.id, environment: request.environment, scopes: request.scopes }, secret: "lk_new" };
      },
    }),
  );
  const { out, err } = await run([
    "keys",
    "create",
    "app",
    "-e",
    "prod",
    "--scope",
    "proxy,integrations:*",
    "--expires-in",
    "30d",
  ]);
  expect(out).toContain("secret: lk_new");
  expect(err).toContain("not shown again");
  expect(requests[0]).toMatchObject({ id: "app", environment: "prod", scopes: [1, 5, 6] });
  expect(Number(requests[0]?.expiresAt?.seconds) * 1_000 - Date.now()).toBeGreaterThan(29 * 86_400_000);
  expect((await run(["keys", "create", "--scope", "everything"])).err).toContain("connections:read");
});

it("reads a client secret from a file, a pipe or a variable, and never from an argument", async () => {
  const created: CreateIntegrationRequest[] = [];
  const updated: UpdateIntegrationRequest[] = [];
  const run = await against((router) =>
    router.service(IntegrationService, {
      createIntegration(request) {
        created.push(request);
        return { integration: { key: "calendar" } };
      },
      getIntegration: () => ({
        integration: { key: "calendar", channels: { catchUpSyncs: ["events"] }, revision: 9n },
      }),
      updateIntegration(request) {
        updated.push(request);
        return { integration: { key: "calendar" } };
      },
    }),
  );
  const create = ["integrations", "create", "calendar", "--provider", "google-calendar", "--client-id", "abc"];
  await run([...create, "--client-secret-file", await fileOf("from-file\n"), "--scope", "a", "--scope", "b"]);
  await run([...create, "--client-secret-file", "-"], { stdin: "from-pipe\r\n" });
  await run([...create, "--client-secret-env", "SECRET"], { env: { SECRET: "from-env" } });
  expect(created.map(({ integration }) => integration?.secrets?.clientSecret)).toEqual([
    "from-file",
    "from-pipe",
    "from-env",
  ]);
  expect(created[0]?.integration).toMatchObject({
    provider: "google-calendar",
    oauth: { clientId: "abc", scopes: ["a", "b"] },
  });
  expect((await run([...create, "--client-secret", "x"])).code).toBe(2);
  expect((await run([...create, "--client-secret-env", "NONE"])).err).toBe(
    "latchkey: the environment variable NONE is not set\n",
  );

  const update = ["integrations", "update", "calendar"];
  await run([...update, "--no-forward", "--host", "/gmail/=https://mail.test", "--host", "https://b.test"]);
  await run([...update, "--automatic-channels"]);
  await run([...update, "--use-record", "path", "--keep-set-cookie"]);
  await run([...update, "--no-keep-set-cookie"]);
  await run([...update, "--credentials-in-scripts"]);
  await run([...update, "--no-credentials-in-scripts"]);
  expect(updated.map(({ updateMask }) => updateMask?.paths)).toEqual([
    ["hosts", "no_forward"],
    ["channels"],
    ["use_record", "keep_set_cookie"],
    ["keep_set_cookie"],
    ["credentials_in_scripts"],
    ["credentials_in_scripts"],
  ]);
  expect(updated.slice(4).map(({ integration }) => integration?.credentialsInScripts)).toEqual([true, false]);
  expect(updated[2]?.integration).toMatchObject({ useRecord: Integration_UseRecord.PATH, keepSetCookie: true });
  expect(updated[3]?.integration).toMatchObject({ keepSetCookie: false });
  expect(updated[0]?.integration).toMatchObject({
    noForward: true,
    hosts: [
      { prefix: "/gmail/", origin: "https://mail.test" },
      { prefix: "", origin: "https://b.test" },
    ],
  });
  expect(updated[1]).toMatchObject({
    integration: { channels: { automatic: true, catchUpSyncs: ["events"] } },
    expectedRevision: 9n,
  });
});

it("reads a provider's description from YAML, and reports its mistakes", async () => {
  const created: CreateProviderRequest[] = [];
  const run = await against((router) =>
    router.service(ProviderService, {
      createProvider(request) {
        created.push(request);
        return request.provider === undefined ? {} : { provider: request.provider };
      },
    }),
  );
  const yaml =
    "name: my-crm\ndisplay_name: My CRM\napi_key: { header: x-key }\nproxy: { base_url: https://api.crm.test }\n";
  const { out } = await run(["providers", "create", "-"], { stdin: yaml });
  expect(created[0]?.provider).toMatchObject({
    name: "my-crm",
    auth: { case: "apiKey" },
    proxy: { baseUrl: "https://api.crm.test" },
  });
  // The output is accepted as input again.
  expect((await run(["providers", "create", "-"], { stdin: out })).out).toBe(out);
  const wrong = await run(["providers", "create", await fileOf("name: x\nbase_url: https://a\n")]);
  expect(wrong).toMatchObject({ code: 2, err: expect.stringContaining("base_url") });
  expect((await run(["providers", "create", await fileOf("a: [")])).err).toContain("does not describe a provider");
});

it("watches until it is interrupted, and that is no failure", async () => {
  const run = await against((router) =>
    router.service(ConnectionService, {
      async *watchConnections({ environment }, { signal }) {
        yield { event: { case: "marker", value: { kind: WatchMarker_Kind.SNAPSHOT_BEGIN, revision: 5n } } };
        yield {
          event: {
            case: "put",
            value: { ref: { ...ref("ada"), environment }, state: Connection_State.ACTIVE, revision: 4n },
          },
        };
        yield { event: { case: "deleted", value: { ref: ref("bob"), revision: 6n } } };
        await new Promise((resolve) => signal.addEventListener("abort", resolve));
      },
    }),
  );
  const watch = (more: readonly string[]) =>
    run(["connections", "watch", ...more], { signal: AbortSignal.timeout(300) });
  const { code, out, err } = await watch([]);
  expect({ code, err }).toEqual({ code: 0, err: "" });
  expect(out).toBe("5  snapshot:\n4  put      calendar/ada  active\n6  deleted  calendar/bob\n");
  const steps = (await watch(["--json"])).out.trimEnd().split("\n");
  expect(JSON.parse(steps[2] ?? "")).toEqual({ deleted: { ref: ref("bob"), revision: 6 } });
});

it("prints where to resume when a watch breaks", async () => {
  const run = await against((router) =>
    router.service(ConnectionService, {
      async *watchConnections() {
        yield { event: { case: "marker", value: { kind: WatchMarker_Kind.RESUMED, revision: 41n } } };
        throw new ConnectError("stopping", Code.Unavailable);
      },
    }),
  );
  const { code, err } = await run(["connections", "watch", "--from-revision", "40"]);
  expect(code).toBe(1);
  expect(err).toBe("Use --from-revision 41 to resume here.\nlatchkey: stopping (unavailable)\n");
});

it("lists the audit trail", async () => {
  const run = await against((router) =>
    router.service(LogService, {
      listAuditEvents: ({ actor, action }) => ({
        events: [{ actor, action, targets: ["a/1", "a/2", "a/3", "a/4", "a/5"] }],
      }),
    }),
  );
  const { out } = await run(["audit", "list", "--actor", "app", "--action", "connection"]);
  expect(out).toContain("app  connection  -            a/1,a/2,a/3 and 2 more");
});

it.each([
  [HealthCheckResponse_ServingStatus.SERVING, 0, "serving\n"],
  [HealthCheckResponse_ServingStatus.NOT_SERVING, 1, "not serving\n"],
] as const)("answers health %d with its exit code", async (status, code, out) => {
  const run = await against((router) => router.service(Health, { check: () => ({ status }) }));
  expect(await run(["health"])).toEqual({ code, out, err: "" });
});

it("prints an error on one line, with its details below and latchkey's code", async () => {
  const run = await against((router) =>
    router.service(EnvironmentService, {
      createEnvironment() {
        const details = [
          { desc: ErrorInfoSchema, value: { reason: "invalid_body", domain: "latchkey" } },
          {
            desc: BadRequestSchema,
            value: { fieldViolations: [{ field: "name", description: "must be lower-case" }] },
          },
        ];
        throw new ConnectError("the request is not valid", Code.InvalidArgument, undefined, details);
      },
      getEnvironment() {
        throw new ConnectError("there is none\x1b[2J", Code.NotFound);
      },
      listEnvironments() {
        throw new ConnectError("a key is needed", Code.Unauthenticated);
      },
    }),
  );
  expect(await run(["environments", "create", "X"])).toEqual({
    code: 1,
    out: "",
    err: "latchkey: the request is not valid (invalid_body)\n  name: must be lower-case\n",
  });
  expect((await run(["environments", "get", "x"])).err).toBe("latchkey: there is none\\u001b[2J (not_found)\n");
  expect((await run(["environments", "list"])).err).toMatch(
    /^latchkey: a key is needed \(unauthenticated\)\n {2}give a key with --key-file/,
  );
});

it.each(["http://127.0.0.1:1", "unix:/nowhere/latchkey.sock"])(
  "asks whether latchkey is running when %s refuses",
  async (address) => {
    const { code, err } = await latchkey(["health", "--address", address]);
    expect(code).toBe(1);
    expect(err).toContain("latchkey: the control plane cannot be reached (unavailable)\n");
    expect(err).toContain(`is Latchkey running at ${address}?`);
  },
);

it("survives an address where something else answers", async () => {
  const server = createServer((socket) => socket.end("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void server.close());
  const { code, err } = await latchkey(["health", "--address", `127.0.0.1:${(server.address() as AddressInfo).port}`]);
  expect(code).toBe(1);
  expect(err).toContain("does not speak HTTP/2");
});

it("stops after --timeout, and says how to wait longer", async () => {
  const run = await against((router) => router.service(Health, { check: () => new Promise(() => {}) }));
  const { code, err } = await run(["health", "--timeout", "100ms"]);
  expect(code).toBe(1);
  expect(err).toMatch(/\(deadline_exceeded\)\n {2}use --timeout to wait longer\n$/);
});

it("speaks over a Unix socket", async () => {
  const path = join(folder, "control.sock");
  await fakeControl((router) => router.service(Health, { check: () => ({ status: 1 }) }), { path });
  expect(await latchkey(["health", "--address", `unix:${path}`])).toMatchObject({ code: 0, out: "serving\n" });
});

it.each([
  [["bogus"], "there is no command bogus"],
  [["connections", "get"], "give <integration/connection>"],
  [["connections", "list", "--limit", "none"], "whole number"],
  [["connections", "get", "ada"], "integration/connection"],
  [["health", "--nope"], "there is no option --nope"],
  [["health", "--address", "ftp://x"], "--address must be"],
  [["health", "--timeout", "5"], "30s"],
  [["connections"], "Usage: latchkey connections"],
  [[], "Usage: latchkey"],
])("exits with 2 when %j is invalid, and says why", async (argv, why) => {
  const { code, out, err } = await latchkey(argv);
  expect({ code, out }).toEqual({ code: 2, out: "" });
  expect(err).toContain(why);
});

it("runs a command that is given from outside, with its words, its options and its own help", async () => {
  const calls: unknown[] = [];
  const serve: OwnCommand = {
    name: "serve",
    summary: "run the sidecar",
    helpText: "Environment:\n  LATCHKEY_STORE   where things are kept",
    options: [
      { flags: "--once", summary: "stop again" },
      { flags: "--config <file>", summary: "a file" },
    ],
    run: async (args, options) => {
      calls.push([args, options]);
      return 78;
    },
  };
  const config: OwnCommand = {
    name: "config",
    summary: "about configuration",
    subcommands: [
      { name: "schema", summary: "print its schema", arguments: ["[part]"], run: async (args) => args.length },
    ],
  };
  const own = [serve, config];
  expect((await latchkey(["serve", "--once", "--config", "a.yaml"], {}, own)).code).toBe(78);
  expect(calls).toEqual([[[], { once: true, config: "a.yaml" }]]);
  expect((await latchkey(["config", "schema", "limits"], {}, own)).code).toBe(1);
  const help = await latchkey(["serve", "--help"], {}, own);
  expect(help).toMatchObject({ code: 0, err: "" });
  expect(help.out).toContain("\nEnvironment:\n  LATCHKEY_STORE   where things are kept\n");
  expect(help.out).not.toContain("--address");
  expect((await latchkey(["--help"], {}, own)).out).toMatch(/serve .*run the sidecar/);
  expect((await latchkey(["serve", "--key", "x"], {}, own)).err).toBe("latchkey: --key is not for `serve`\n");
  expect((await latchkey(["serve", "stray"], {}, own)).code).toBe(2);
});

it("reports an exception of an external command, and fails", async () => {
  const dev: OwnCommand = {
    name: "dev",
    summary: "try it",
    run: async () => Promise.reject(new Error("port 3003 is taken")),
  };
  expect(await latchkey(["dev"], {}, [dev])).toEqual({ code: 1, out: "", err: "latchkey: port 3003 is taken\n" });
});

it("colours on a terminal alone", async () => {
  const run = await against((router) =>
    router.service(ConnectionService, {
      listConnections: () => ({ connections: [{ ref: ref("ada"), state: Connection_State.REAUTHORIZATION_REQUIRED }] }),
    }),
  );
  const list = ["connections", "list"];
  expect((await run(list, { isTerminal: true })).out).toContain("\x1b[31mreauthorization_required\x1b[0m");
  expect((await run(list)).out).not.toContain("\x1b");
  expect((await run(list, { isTerminal: true, env: { NO_COLOR: "1" } })).out).not.toContain("\x1b");
});
