import { randomBytes } from "node:crypto";
import { ConnectError } from "@connectrpc/connect";
import { expect, it } from "vitest";
import { runCli } from "../../../src/cli/program.ts";
import { ErrorInfoSchema } from "../../../src/gen/google/rpc/error_details_pb.ts";
import { ConnectSessionService } from "../../../src/gen/latchkey/v1/connect_session_pb.ts";
import { type Log, LogService } from "../../../src/gen/latchkey/v1/log_pb.ts";
import { broughtBackTo, type Connecting, connecting, departure } from "../../support/sidecar/connecting.ts";
import { adminKey } from "../../support/sidecar/harness.ts";
import { formsOf } from "../../support/wire/secret-forms.ts";
import { serve } from "../../unit/broker/asking.ts";
import { memoryTerminal } from "../cli/memory-terminal.ts";

const files = "sandbox-files";
const asked = { environment: "dev", operation: "auth.authorize" };

/** The newest first. */
const logsOf = async ({ sidecar }: Connecting): Promise<readonly Log[]> =>
  (await sidecar.client(LogService).listLogs(asked)).logs;

/** The parts of a log that the tests compare. */
const said = ({ integration, connectionId, failed, lines }: Log) => ({
  of: `${integration}/${connectionId}`,
  failed,
  lines: lines.map(({ level, message, fields }) => [level, message, fields]),
});

/** The lines of the process's log about these, by the id that they name. */
const processLines = ({ sidecar }: Connecting) =>
  new Map(
    sidecar.logged
      .map((line) => JSON.parse(line))
      .filter(({ msg }) => msg === "an authorization failed")
      .map((line) => [line.log_id, line]),
  );

const authorise = async (all: Connecting, token?: string) =>
  all.browser().go(departure(all, token ?? (await all.session())));

it("logs that an end user denied access, and one whose state was refused", async () => {
  const all = await connecting();
  expect((await authorise(all)).status).toBe(200);
  const [{ connection_id: id } = { connection_id: "" }] = await all.connections();
  expect(await logsOf(all)).toEqual([]);

  all.sandbox.behave({ consent: "deny" });
  const page = await authorise(all, await all.reconnectSession(id));
  expect([page.status, page.text.includes("Access was not allowed.")]).toEqual([200, true]);
  all.sandbox.behave({ consent: "allow" });
  const back = await broughtBackTo(all, all.browser(), departure(all, await all.session()));
  expect((await all.browser().go(back)).status).toBe(400);

  const logs = await logsOf(all);
  expect(logs.map(said)).toEqual([
    {
      of: `${files}/`,
      failed: true,
      lines: [["warn", expect.stringContaining("another browser"), { reason: "other_browser", credentials: "oauth2" }]],
    },
    {
      of: `${files}/${id}`,
      failed: true,
      lines: [["warn", "the end user denied access", { reason: "denied", code: "denied", credentials: "oauth2" }]],
    },
  ]);
  const lines = processLines(all);
  expect(logs.map((log) => lines.get(log.id)?.outcome)).toEqual(["other_browser", "denied"]);
  for (const { id: logId } of logs) expect(page.text).not.toContain(logId);
});

it("logs an application that the provider does not know, and shows the end user nothing of it", async () => {
  const all = await connecting();
  const description = "the secret of sandbox is not sandbox-secret";
  all.sandbox.behave({ answers: { token: [{ kind: "error", status: 401, error: "invalid_client", description }] } });
  const page = await authorise(all);
  expect([page.status, page.text.includes("invalid_client")]).toEqual([400, false]);
  expect((await logsOf(all)).map(said)).toEqual([
    {
      of: `${files}/`,
      failed: true,
      lines: [
        [
          "error",
          expect.stringContaining("does not accept the integration's OAuth app"),
          { reason: "misconfigured", code: "invalid_client", credentials: "oauth2" },
        ],
      ],
    },
  ]);
});

it("logs a code that no user enters, in the commit that ends the wait", async () => {
  const behaviour = { consent: "allow", deviceIntervalS: 1, deviceLifetimeS: 2 } as const;
  const all = await connecting({ sandbox: { behaviour } });
  await all.sidecar.client(ConnectSessionService).beginDeviceAuthorization({ environment: "dev", integration: files });
  await expect.poll(async () => (await logsOf(all)).length, { interval: 100 }).toBe(1);
  const [log] = await logsOf(all);
  expect(log && said(log)).toEqual({
    of: `${files}/`,
    failed: true,
    lines: [
      ["warn", "the code was not entered in time", { reason: "expired", code: "expired_token", credentials: "oauth2" }],
    ],
  });
  expect(processLines(all).get(log?.id)).toMatchObject({ outcome: "expired", reason: "expired_token" });
});

it("logs typed-in credentials that the provider rejects", async () => {
  const all = await connecting();
  const secret = `typed-${randomBytes(12).toString("hex")}`;
  const path = `/oauth2/auth/sandbox-client-credentials?connect_session_token=${await all.session()}`;
  const body = { client_id: "sandbox", client_secret: secret };
  const answer = await all.sidecar.rest("POST", path, { body });
  expect([answer.status, answer.body.error.code]).toEqual([400, "connection_test_failed"]);
  const logs = await logsOf(all);
  expect(logs.map(said)).toEqual([
    {
      of: "sandbox-client-credentials/",
      failed: true,
      lines: [
        [
          "warn",
          "the provider rejected the credentials; nothing was saved",
          { reason: "refused", code: "invalid_client", credentials: "oauth2Client" },
        ],
      ],
    },
  ]);
  expect(JSON.stringify(answer.body)).not.toContain(logs[0]?.id);
});

/**
 * Runs a first request to the provider that is refused, a pushed request or one of OAuth 1, so that the user cannot
 * leave for the provider.
 */
const notLeft = async (integrations: readonly object[], secret = app) => {
  const pushing = (origin: string) => ({
    name: "pushing",
    oauth2: {
      authorization_url: `${origin}/oauth2/auth`,
      token_url: `${secureOf(origin)}/oauth2/token`,
      // The sandbox has no such endpoint and refuses it.
      pushed_authorization_url: `${secureOf(origin)}/oauth2/par`,
    },
    proxy: { base_url: secureOf(origin) },
  });
  return connecting({
    providers: (origin) => [pushing(origin)],
    integrations,
    sidecar: { env: { APP_SECRET: secret } },
  });
};
const secureOf = (origin: string) => origin.replace("http:", "https:");
const app = "sandbox-secret";
const pushingApp = (more: object = {}) => ({
  environment: "dev",
  key: "pushing",
  provider: "pushing",
  oauth: { client_id: "sandbox", client_secret: { env: "APP_SECRET" }, ...more },
});
const leaving = async (all: Connecting, key: string) => all.browser().go(departure(all, await all.session(), {}, key));
const counted = ({ sidecar }: Connecting, credentials: string, outcome: string) =>
  sidecar.metric(`latchkey_authorizations_total{credentials="${credentials}",outcome="${outcome}"}`);

it("logs a first request that the provider refuses before the user leaves", async () => {
  const all = await notLeft([pushingApp()]);
  const page = await leaving(all, "pushing");
  expect([page.status, page.headers.get("latchkey-error")]).toEqual([424, "integration_misconfigured"]);
  const logs = await logsOf(all);
  expect(logs.map(said)).toEqual([
    {
      of: "pushing/",
      failed: true,
      lines: [
        [
          "error",
          expect.stringContaining("does not accept the integration's OAuth app"),
          { reason: "misconfigured", code: "http_404", credentials: "oauth2" },
        ],
      ],
    },
  ]);
  expect(processLines(all).get(logs[0]?.id)).toMatchObject({ outcome: "misconfigured", reason: "http_404" });
  // The log's id is for the operator, and not shown to the end user.
  expect(page.text).not.toContain(logs[0]?.id);
  expect(await counted(all, "oauth2", "misconfigured")).toBe(1);
});

it("leaves a log of OAuth 1's first request, refused or unanswered, and of the connection that it was for", async () => {
  const all = await notLeft([], "not-the-secret-of-sandbox");
  expect((await leaving(all, "sandbox-oauth1")).status).toBe(424);
  await all.sandbox.close();
  expect((await leaving(all, "sandbox-oauth1")).status).toBe(502);
  const [second, first, ...more] = (await logsOf(all)).map(said);
  expect(more).toEqual([]);
  expect([first, second].map((log) => [log?.of, log?.lines[0]?.[0], log?.lines[0]?.[2]])).toEqual([
    ["sandbox-oauth1/", "error", { reason: "misconfigured", code: expect.stringMatching(/./), credentials: "oauth1" }],
    [
      "sandbox-oauth1/",
      "warn",
      { reason: "provider_unavailable", code: expect.stringMatching(/./), credentials: "oauth1" },
    ],
  ]);
});

it("logs an integration without a client id, and no mistakes of the end user", async () => {
  const all = await notLeft([{ ...pushingApp(), oauth: undefined }]);
  const page = await leaving(all, "pushing");
  expect([page.status, page.text.includes("has no client id yet")]).toEqual([424, true]);
  const wrong = departure(all, await all.session(), { "authorization_params[state]": "mine" });
  expect((await all.browser().go(wrong)).status).toBe(400);
  expect((await leaving(all, "nobody")).status).toBe(404);
  expect((await logsOf(all)).map(said)).toEqual([
    {
      of: "pushing/",
      failed: true,
      lines: [
        [
          "error",
          expect.stringContaining("correct its client id, secret or redirect URI"),
          { reason: "misconfigured", code: "integration_misconfigured", credentials: "oauth2" },
        ],
      ],
    },
  ]);
});

it("names the log that explains why no device code was issued", async () => {
  const all = await notLeft([pushingApp()]);
  const device = { environment: "dev", integration: "pushing" };
  const error = await all.sidecar
    .client(ConnectSessionService)
    .beginDeviceAuthorization(device)
    .catch((thrown: unknown) => thrown);
  if (!(error instanceof ConnectError)) throw new Error("a provider without such an endpoint gave a code");
  const [info] = error.findDetails(ErrorInfoSchema);
  const [log, ...more] = await logsOf(all);
  expect([info?.reason, info?.metadata, more]).toEqual(["integration_misconfigured", { log_id: log?.id }, []]);
  const terminal = memoryTerminal({ env: {}, isTerminal: false });
  const { control } = all.sidecar;
  const argv = ["connect", "pushing", "--device", "-e", "dev", "--address", control, "--key", adminKey];
  expect(await runCli(argv, terminal)).not.toBe(0);
  const [latest] = await logsOf(all);
  expect(terminal.err()).toContain(`latchkey logs ${latest?.id}`);
});

it("K03 repeats no secret of a request that was refused before the user left", async () => {
  const clientSecret = "nobody-but-the-two-of-us";
  const heard: URLSearchParams[] = [];
  const { origin } = await serve((request, response) => {
    let body = "";
    request.on("data", (chunk) => {
      body += chunk;
    });
    request.on("end", () => {
      const sent = new URLSearchParams(body);
      heard.push(sent);
      response.statusCode = 400;
      response.setHeader("content-type", "application/json");
      const words = [clientSecret, sent.get("state") ?? "", `no_${sent.get("nonce")}_no`];
      response.end(JSON.stringify({ error: words[heard.length - 1], error_description: words.join(" ") }));
    });
  });
  const all = await connecting({
    sidecar: { env: { APP_SECRET: clientSecret, LATCHKEY_ALLOW_PRIVATE: origin } },
    providers: () => [
      {
        name: "pushing",
        oauth2: {
          authorization_url: `${origin}/auth`,
          token_url: `${secureOf(origin)}/token`,
          pushed_authorization_url: `${secureOf(origin)}/par`,
          default_scopes: ["openid"],
        },
        proxy: { base_url: secureOf(origin) },
      },
    ],
    integrations: [pushingApp()],
  });
  const pages = [];
  for (let i = 0; i < 3; i += 1) pages.push(await leaving(all, "pushing"));
  // An unknown error code is passed on.
  expect(pages.map(({ status }) => status)).toEqual([502, 502, 502]);
  const found = await logsOf(all);
  expect([found.length, heard.length]).toEqual([3, 3]);
  const told = JSON.stringify([found.map(said), pages, all.sidecar.logged]);
  const secrets = [clientSecret, ...heard.flatMap((sent) => [sent.get("state") ?? "", sent.get("nonce") ?? ""])];
  expect(secrets.filter((secret) => secret === "" || formsOf(secret).some((form) => told.includes(form)))).toEqual([]);
});

it("K03 repeats no secret, whatever a provider's answers contain", async () => {
  // Made of words: a text that looks like a token would be redacted in any case.
  const clientSecret = "nobody-but-the-two-of-us";
  const code = "words-of-a-code";
  const behaviour = { consent: "allow", deviceIntervalS: 1 } as const;
  const all = await connecting({ sandbox: { behaviour }, sidecar: { env: { APP_SECRET: clientSecret } } });
  const token = await all.session();
  const secrets = new Map([
    ["the application's", clientSecret],
    ["the session's token", token],
    ["a code of words", code],
  ]);
  const browser = all.browser();
  const returned = async (change: (query: URLSearchParams, state: string) => void) => {
    const back = new URL(await broughtBackTo(all, browser, departure(all, token)));
    const state = back.searchParams.get("state") ?? "";
    secrets.set(`a state, ${secrets.size}`, state).set(`a code, ${secrets.size}`, back.searchParams.get("code") ?? "");
    change(back.searchParams, state);
    return (await browser.go(back.href)).status;
  };
  const told = (error: string) => (query: URLSearchParams) => {
    query.delete("code");
    query.set("error", error);
  };
  const statuses = [
    await returned(told(clientSecret)),
    await returned(told(`no_${clientSecret}_no`)),
    await returned((query, state) => told(state)(query)),
    await returned((query) => {
      query.set("code", code);
      query.set("error", code);
    }),
    await returned(told("two words of it")),
  ];
  for (const answer of [
    { kind: "error", status: 400, error: clientSecret, description: clientSecret },
    { kind: "error", status: 401, error: "invalid_client", description: clientSecret },
    { kind: "raw", status: 200, text: `<html>${clientSecret}</html>` },
  ] as const) {
    all.sandbox.behave({ answers: { token: [answer] } });
    statuses.push(await returned(() => {}));
  }
  // The secret does not match the sandbox's.
  statuses.push(await returned(() => {}));
  expect(statuses).toEqual(Array(9).fill(400));

  const { client, control, logged } = all.sidecar;
  const found = await logsOf(all);
  expect(found).toHaveLength(9);
  const whole = await Promise.all(found.map(({ id }) => client(LogService).getLog({ environment: "dev", id })));
  const terminal = memoryTerminal({ env: {}, isTerminal: false });
  const argv = ["logs", "-e", "dev", "--operation", asked.operation, "--json", "--address", control, "--key", adminKey];
  expect(await runCli(argv, terminal), terminal.err()).toBe(0);
  const places = new Map([
    ["the logs", JSON.stringify(whole.map(({ log }) => log && said(log)))],
    ["the command line", terminal.out()],
    ["the process's log", logged.join("\n")],
  ]);
  expect(places.get("the logs")).toContain("unreadable_error");
  const hits = [...places].flatMap(([place, text]) =>
    [...secrets]
      .filter(([, secret]) => formsOf(secret).some((form) => text.includes(form)))
      .map(([name]) => `${name} in ${place}`),
  );
  expect(hits).toEqual([]);
});
