import { randomBytes } from "node:crypto";
import { expect, it } from "vitest";
import { runCli } from "../../src/cli/program.ts";
import { ConnectSessionService } from "../../src/gen/latchkey/v1/connect_session_pb.ts";
import { type Log, LogService } from "../../src/gen/latchkey/v1/log_pb.ts";
import { memoryTerminal } from "../cli/memory-terminal.ts";
import { broughtBackTo, type Connecting, connecting, departure } from "../connecting.ts";
import { adminKey } from "../harness.ts";
import { formsOf } from "../secret-forms.ts";

const files = "sandbox-files";
const asked = { environment: "dev", operation: "auth.authorize" };

/** The newest first. */
const logsOf = async ({ sidecar }: Connecting): Promise<readonly Log[]> =>
  (await sidecar.client(LogService).listLogs(asked)).logs;

/** What a log says, and of what. */
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

it("leaves a log of an end user who does not allow it, and one who may not come back", async () => {
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
      lines: [["warn", "the end user did not allow it", { reason: "denied", code: "denied", credentials: "oauth2" }]],
    },
  ]);
  const lines = processLines(all);
  expect(logs.map((log) => lines.get(log.id)?.outcome)).toEqual(["other_browser", "denied"]);
  for (const { id: logId } of logs) expect(page.text).not.toContain(logId);
});

it("leaves a log of an application that the provider does not know, where the end user is told nothing of it", async () => {
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
          expect.stringContaining("does not accept the integration's application"),
          { reason: "misconfigured", code: "invalid_client", credentials: "oauth2" },
        ],
      ],
    },
  ]);
});

it("leaves a log of a code that nobody enters, in the commit that ends the waiting", async () => {
  const behaviour = { consent: "allow", deviceIntervalS: 1, deviceLifetimeS: 2 } as const;
  const all = await connecting({ sandbox: { behaviour } });
  await all.sidecar.client(ConnectSessionService).beginDeviceAuthorization({ environment: "dev", integration: files });
  await expect.poll(async () => (await logsOf(all)).length, { timeout: 10_000, interval: 100 }).toBe(1);
  const [log] = await logsOf(all);
  expect(log && said(log)).toEqual({
    of: `${files}/`,
    failed: true,
    lines: [
      ["warn", "nobody entered the code in time", { reason: "expired", code: "expired_token", credentials: "oauth2" }],
    ],
  });
  expect(processLines(all).get(log?.id)).toMatchObject({ outcome: "expired", reason: "expired_token" });
});

it("leaves a log of what an end user has typed in and the provider does not take", async () => {
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
          "what was brought was not accepted, and nothing was filed",
          { reason: "refused", code: "invalid_client", credentials: "oauth2Client" },
        ],
      ],
    },
  ]);
  expect(JSON.stringify(answer.body)).not.toContain(logs[0]?.id);
});

it("K03 repeats no secret in them, whatever a provider says in its answers", async () => {
  // Of words: what looks like a token would be blanked whether or not anybody knows it.
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
  // Its secret is not the one that the sandbox knows.
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
