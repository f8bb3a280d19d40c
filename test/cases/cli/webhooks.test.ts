import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { runCli } from "../../../src/cli/program.ts";
import { IntegrationService } from "../../../src/gen/latchkey/v1/integration_pb.ts";
import { adminKey, secretKey, temporaryFolder } from "../../support/sidecar/harness.ts";
import { calendarUri, type Receiving, startReceiving } from "../../support/sidecar/receiving.ts";
import { memoryTerminal } from "./memory-terminal.ts";

interface Setting {
  readonly stdin?: string | Buffer;
  readonly isTerminal?: boolean;
  readonly signal?: AbortSignal;
}

async function typing(): Promise<Receiving & { readonly run: typeof run }> {
  const receiving = await startReceiving();
  async function run(line: readonly string[], { isTerminal = false, ...setting }: Setting = {}) {
    // Without colors, which have their own test.
    const terminal = memoryTerminal({ ...setting, isTerminal, env: isTerminal ? { NO_COLOR: "1" } : {} });
    const where = ["--address", receiving.sidecar.control, "--key", adminKey, "-e", "dev"];
    const code = await runCli(["webhooks", ...line, ...where], terminal);
    return { code, out: terminal.out(), err: terminal.err() };
  }
  return Object.assign(receiving, { run });
}
type Typing = Awaited<ReturnType<typeof typing>>;

const adas = calendarUri("ada%40example.com");
const time = /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ/g;
const lines = (text: string) => text.trimEnd().split("\n");
/** The text without the parts that differ in each run. */
const steady = (text: string) =>
  text
    .replaceAll(time, "TIME")
    .replaceAll(/http:\/\/127[^\s]+/g, "URL")
    .replaceAll(/\bmsg_[\w-]+/g, "MSG")
    .replaceAll(/\b0m[0-9a-z]{19}\b/g, "ID")
    .replaceAll(/\d+ ms/g, "0 ms")
    .replaceAll(/ {2,}/g, "  ");

/** Sends one notification for ada, which is delivered, and one that matches no connection. */
async function two({ connect, notifyOf, application, run }: Typing): Promise<void> {
  await connect("ada", { metadata: { email: "ada@example.com" } });
  await notifyOf(adas, 1);
  await notifyOf(calendarUri("nobody"), 2);
  await application.got(2);
  await expect.poll(async () => lines((await run(["forwards", "--state", "delivered"])).out).length).toBe(3);
}

const idsOf = async ({ run }: Typing, list: "list" | "forwards"): Promise<string[]> =>
  lines((await run([list, "--json", "--all"])).out).map((line) => JSON.parse(line).id);

describe("webhooks list", () => {
  it("shows received notifications, with filters", async () => {
    const all = await typing();
    await two(all);
    const { run } = all;
    const whole = await run(["list"]);
    expect(steady(whole.out)).toBe(
      [
        "NOTIFICATION  WHEN  INTEGRATION  KIND  MESSAGE  RULE  CONNECTIONS",
        "ID  TIME  calendar  -  channel-1 2  -  none",
        "ID  TIME  calendar  -  channel-1 1  3  ada",
        "",
      ].join("\n"),
    );
    const [stranger, ada] = lines(whole.out).slice(1);
    const shown = async (...filter: string[]) => lines((await run(["list", ...filter])).out).slice(1);
    const cells = (line = "") => line.split(/ {2,}/);
    expect((await shown("--unmatched")).map(cells)).toEqual([cells(stranger)]);
    expect((await shown("--connection", "calendar/ada")).map(cells)).toEqual([cells(ada)]);
    expect(await shown("--since", "1h")).toHaveLength(2);
    expect(await shown("--until", "1h")).toEqual([]);
    expect(await shown("--since", "2999-01-01T00:00:00Z")).toEqual([]);
    expect(await shown("--until", "2999-01-01T00:00:00Z", "--integration", "calendar")).toHaveLength(2);
    expect((await run(["list", "--integration", "other"])).err).toBe("no webhooks\n");
    const first = await run(["list", "--limit", "1"]);
    expect(lines(first.out)).toHaveLength(2);
    expect(first.err).toBe("Showing the first 1; there may be more. Use --all, or a higher --limit.\n");
    const [json] = lines((await run(["list", "--json"])).out);
    expect(JSON.parse(json ?? "")).toMatchObject({ integration: "calendar", matched_rule: -1 });
  });

  it.each([
    [["list", "--since", "5"], "an age such as 2h"],
    [["list", "--since", "2026-01-01"], "an age such as 2h"],
    [["list", "--connection", "calendar/ada", "--integration", "files"], "name different integrations"],
    [["list", "--connection", "calendar/ada", "--unmatched"], "cannot be used together"],
    [["forwards", "--state", "lost"], "pending, delivered, dead, no_destination, paused"],
    [["forwards", "--connection", "ada"], "integration/connection"],
    [["replay"], "--state dead"],
    [["replay", "--integration", "calendar"], "--state dead"],
    [["replay", "msg_1", "--state", "dead"], "not both"],
    [["replay", "--state", "dead"], "--yes"],
    [["explain", "calendar", "-H", "no colon"], "name: value"],
    [["send", "calendar", "--body", "/nowhere/at/all"], "no such file"],
  ])("refuses %j", async (line, why) => {
    const { run } = await typing();
    const { code, err } = await run(line);
    expect([code, err]).toEqual([2, expect.stringContaining(why)]);
  });
});

it("webhooks show follows a notification from its arrival to its destinations", async () => {
  const all = await typing();
  await two(all);
  const [, id = ""] = await idsOf(all, "list");
  const { out } = await all.run(["show", id]);
  expect(steady(out)).toBe(
    [
      "webhook ID  of calendar in dev",
      "received TIME, message channel-1 1",
      "sender not proven (channel_token): another client made its channel, so its token is unknown",
      "matches ada by rule 3, metadata.email",
      "",
      "x-cal-channel-id: channel-1",
      "x-cal-resource-id: resource-1",
      "x-cal-resource-uri: https://calendar.example/v3/calendars/ada%40example.com/events?alt=json",
      "x-cal-resource-state: exists",
      "x-cal-message-number: 1",
      "",
      "FORWARD  CONNECTION  STATE  ATTEMPTS  DESTINATION",
      "MSG  calendar/ada  delivered  1  URL",
      "",
    ].join("\n"),
  );
  expect(JSON.parse((await all.run(["show", id, "--json"])).out)).toMatchObject({
    notification: { id, matches: [{ id: "ada" }] },
    forwards: [{ connection_id: "ada", state: "delivered" }],
  });
  const missing = await all.run(["show", "0mwqz3wnm00008ba7235c"]);
  expect([missing.code, missing.err]).toEqual([1, expect.stringContaining("(not_found)")]);
});

it("text of a provider or an application moves no cursor, and binary data is not printed", async () => {
  const all = await typing();
  const { application, notify, run } = all;
  application.answer = (_, response) => void response.writeHead(200).end("\x1b]0;owned\x07 \x1b[2Jgone");
  const evil = "\x1b[31mred\u202e";
  await notify({
    headers: { "x-cal-resource-uri": "https://x/\x9b2J", "x-cal-channel-id": "c", "x-cal-message-number": "1" },
    body: `line one\n${evil}`,
  });
  await run(["send", "calendar", "--body", "-"], { stdin: Buffer.from([0xff, 0xfe, 0x00]) });
  await application.got(2);
  await expect.poll(async () => (await run(["forwards", "--json"])).out.match(/"state":"delivered"/g)?.length).toBe(2);
  const [binary = "", text = ""] = await idsOf(all, "list");
  const outputs = [
    await run(["list"]),
    await run(["show", text]),
    await run(["show", binary]),
    ...(await Promise.all((await idsOf(all, "forwards")).map((id) => run(["forward", id])))),
  ];
  for (const { out } of outputs) {
    // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what must not be there.
    expect(out).not.toMatch(/[\0-\x09\x0b-\x1f\x7f-\x9f\u202e]/);
  }
  expect(outputs[1]?.out).toContain("line one\n\\u001b[31mred\\u202e");
  expect(outputs[2]?.out).toContain("3 bytes, not text");
  expect(outputs[3]?.out).toContain("\\u001b]0;owned\\u0007 \\u001b[2Jgone");
});

describe("webhooks forwards and replay", () => {
  it("shows waiting and failed deliveries, and sends them again", async () => {
    const all = await typing();
    const { application, notifyOf, run } = all;
    application.answer = (_, response) => void response.writeHead(503, { "retry-after": "3600" }).end("come again");
    await notifyOf(adas, 1);
    await expect
      .poll(async () => steady((await run(["forwards"])).out))
      .toBe(
        [
          "FORWARD  WHEN  TYPE  CONNECTION  STATE  ATTEMPTS  NEXT  DESTINATION",
          "MSG  TIME  forward  calendar  pending: status_503  1  TIME  URL",
          "",
        ].join("\n"),
      );
    const [id = ""] = await idsOf(all, "forwards");
    expect(steady((await run(["forward", id])).out)).toBe(
      [
        "delivery MSG  forward of calendar in dev  pending: status_503",
        "created TIME, a copy of the webhook ID",
        "to URL",
        "next attempt at TIME",
        "",
        '{"from":"calendar","providerConfigKey":"calendar","type":"forward","payload":{"x-cal-channel-id":"channel-1",' +
          `"x-cal-resource-id":"resource-1","x-cal-resource-uri":"${adas}",` +
          '"x-cal-resource-state":"exists","x-cal-message-number":"1"}}',
        "",
        "ATTEMPT  WHEN  TOOK  OUTCOME  ANSWER",
        "1  TIME  0 ms  503  come again",
        "",
      ].join("\n"),
    );
    application.answer = (_, response) => void response.end();
    const again = await run(["replay", id, "nothing"]);
    expect([again.code, lines(again.out)]).toEqual([
      3,
      ["replayed 1 delivery", 'not replayed: nothing: delivery "nothing" does not exist (not_found)'],
    ]);
    expect((await application.got(2)).map(({ headers }) => headers["webhook-id"])).toEqual([id, id]);
    await expect.poll(async () => (await run(["forwards", "--state", "delivered", "--json"])).out).toContain(id);
    const json = JSON.parse((await run(["replay", id, "nothing", "--json"])).out);
    expect(json).toMatchObject({ replayed: 1, refused: { nothing: { code: "not_found" } } });
    await application.got(3);
  });

  it("by filter asks the person first, and takes anything but a yes for a no", async () => {
    const all = await typing();
    await two(all);
    const { run, application } = all;
    const delivered = ["replay", "--state", "delivered", "--connection", "calendar/ada"];
    for (const stdin of ["", "n\n", "yesterday\n"]) {
      const no = await run(delivered, { isTerminal: true, stdin });
      expect([no.code, no.out, no.err]).toEqual([1, "", "Send 1 delivery again? [y/N] Nothing was sent.\n"]);
    }
    expect(application.seen).toHaveLength(2);
    const yes = await run(delivered, { isTerminal: true, stdin: "Y\n" });
    expect([yes.code, yes.out]).toEqual([0, "replayed 1 delivery\n"]);
    await application.got(3);
    await expect.poll(async () => lines((await run(["forwards", "--state", "delivered"])).out).length).toBe(3);
    expect((await run(["replay", "--state", "delivered", "--yes"])).out).toBe("replayed 2 deliveries\n");
    await application.got(5);
    const none = await run(["replay", "--state", "dead"], { isTerminal: true });
    expect([none.code, none.err]).toEqual([0, "no deliveries\n"]);
  });
});

it("webhooks destinations shows paused addresses, and resume releases their deliveries", async () => {
  const all = await typing();
  const { application, notifyOf, run } = all;
  application.answer = (_, response) => void response.writeHead(410).end();
  await notifyOf(adas, 1);
  await expect
    .poll(async () => steady((await run(["destinations"])).out))
    .toMatch(
      /^DESTINATION {2}STATE {2}WAITING {2}OLDEST {2}FAILURES {2}LAST DELIVERED\nURL {2}paused: gone {2}1 {2}\d\.\d s {2}1: gone {2}-\n$/,
    );
  expect((await run(["forwards"])).out).toContain("paused: gone");
  application.answer = (_, response) => void response.end();
  const { code, out } = await run(["resume", application.url]);
  expect([code, out]).toEqual([0, `resumed ${application.url}; 1 delivery pending\n`]);
  await application.got(2);
  await expect
    .poll(async () => steady((await run(["destinations"])).out))
    .toBe("DESTINATION  STATE  WAITING  OLDEST  FAILURES  LAST DELIVERED\nURL  open  0  -  -  TIME\n");
  expect((await run(["resume", "http://nobody.example"])).code).toBe(1);
});

it("webhooks explain shows the matches; send sends it, from a file or a pipe", async () => {
  const all = await typing();
  const { run, connect, application, sidecar } = all;
  await connect("ada", { metadata: { email: "ada@example.com" } });
  const headers = ["-H", `X-Cal-Resource-URI: ${adas}`, "-H", "x-cal-message-number:  7 ", "-H", "x-cal-channel-id:c"];
  expect((await run(["explain", "calendar", ...headers])).out).toBe(
    "rule 3, metadata.email, matches 1 connection:\n  calendar/ada\n",
  );
  expect((await run(["explain", "calendar"])).out).toBe(
    "no rule matches a connection: the webhook would be delivered once, without a connection\n",
  );
  const secrets = { webhookSecret: "what github signs with" };
  const integration = { environment: "dev", key: "github", provider: "github", secrets };
  await sidecar.client(IntegrationService).createIntegration({ integration });
  expect(lines((await run(["explain", "github", "--body", "-"], { stdin: "{}" })).out)[0]).toBe(
    "the webhook would be refused: the sender of the webhook could not be verified: unsigned (unproven_webhook)",
  );
  expect(application.seen).toEqual([]);
  const body = join(await temporaryFolder(), "body.json");
  await writeFile(body, '{"note":"Größe"}');
  const sent = await run(["send", "calendar", ...headers, "--body", body]);
  expect([sent.code, steady(sent.out)]).toEqual([0, "accepted the webhook ID; it matches ada\n"]);
  expect(sent.err).toContain("webhooks get");
  const [delivered] = await application.got(1);
  expect(JSON.parse(delivered?.body ?? "")).toMatchObject({
    connectionId: "ada",
    // For a channel's notification the payload holds its headers, whatever its body.
    payload: { "x-cal-channel-id": "c" },
  });
  const again = await run(["send", "calendar", ...headers]);
  expect([again.code, again.err]).toEqual([1, expect.stringContaining("(already_exists)")]);
  const piped = await run(["send", "calendar", "--body", "-", "--json"], { stdin: '{"from":"a pipe"}' });
  expect(Buffer.from(JSON.parse(piped.out).notification.body, "base64").toString()).toBe('{"from":"a pipe"}');
});

it("webhooks tail prints a line for each step, or JSON, until it is interrupted", async () => {
  const all = await typing();
  const { run, connect, notifyOf, application, sidecar, integrate, notify } = all;
  await integrate("private-api-key");
  await connect("ada", { metadata: { email: "ada@example.com" } });
  const leaving = new AbortController();
  const tails = [["tail"], ["tail", "--json", "--integration", "calendar"]].map((line) =>
    run(line, { signal: leaving.signal }),
  );
  await expect.poll(() => sidecar.metric("latchkey_watchers_open")).toBe(4);
  await notifyOf(adas, 1);
  await application.got(1);
  await expect.poll(() => sidecar.metric('latchkey_delivery_attempts_total{outcome="delivered"}')).toBe(1);
  await notify({ integration: "private-api-key", body: "{}" });
  await application.got(2);
  await expect.poll(async () => lines((await run(["forwards", "--state", "delivered"])).out).length).toBe(3);
  leaving.abort();
  const [table, json] = await Promise.all(tails);
  expect([table?.code, json?.code]).toEqual([0, 0]);
  expect(table?.err).toBe("Waiting for webhooks; press Ctrl-C to stop.\n");
  expect(steady(table?.out ?? "")).toBe(
    [
      "WHEN  WHAT  OF  OUTCOME  ID",
      "TIME  in  calendar channel-1 1  for ada  ID",
      "TIME  out  calendar/ada  pending  MSG",
      "TIME  out  calendar/ada  delivered, attempt 1  MSG",
      "TIME  in  private-api-key  for no connection  ID",
      "TIME  out  private-api-key  pending  MSG",
      "TIME  out  private-api-key  delivered, attempt 1  MSG",
      "",
    ].join("\n"),
  );
  const steps = lines(json?.out ?? "").map((line) => JSON.parse(line));
  expect(steps.map((step) => Object.keys(step)[0])).toEqual(["notification", "forward", "forward"]);
  expect(steps.at(-1)?.forward).toMatchObject({ connection_id: "ada", state: "delivered" });
});

it("reports missing permissions and unknown ids", async () => {
  const { sidecar } = await typing();
  const terminal = memoryTerminal();
  const key = ["--key", secretKey, "-e", "prod", "--address", sidecar.control];
  expect(await runCli(["webhooks", "list", ...key], terminal)).toBe(1);
  expect(terminal.err()).toContain("the key lacks a scope");
  await sidecar.stop();
  const alone = memoryTerminal();
  expect(await runCli(["webhooks", "tail", "--key", adminKey, "--address", sidecar.control], alone)).toBe(1);
  expect(alone.err()).toContain("is Latchkey running at");
});

it("webhooks pause, test, cancel, replay and assign show what they do, or would do", async () => {
  const all = await typing();
  const { application, connect, notifyOf, run } = all;
  const { url } = application;
  await connect("ada");
  const paused = await run(["pause", url, "--reason", "upgrade \x1b[2J"]);
  expect([paused.code, paused.out]).toEqual([0, `paused ${url}; deliveries wait until it is resumed\n`]);
  expect((await run(["destinations"])).out).toContain("paused: upgrade \\u001b[2J");
  const tested = await run(["test", url]);
  expect([tested.code, steady(tested.out)]).toEqual([0, "200 after 0 ms: The application accepted the message.\n"]);
  expect(tested.err).toMatch(/^Sent test_\w+ with content-type, webhook-id,/);
  application.answer = (_, response) => void response.writeHead(404).end();
  expect(await run(["test", url])).toMatchObject({
    code: 1,
    out: expect.stringContaining("check the path of the URL"),
  });
  application.answer = (_, response) => void response.end();

  await notifyOf(adas, 1);
  await notifyOf(adas, 2);
  const cancel = ["cancel", "--integration", "calendar"];
  const would = await run([...cancel, "--dry-run"]);
  expect([would.code, lines(would.out)[0], lines(would.out).length]).toEqual([0, "would cancel 2 deliveries", 4]);
  expect(await run(cancel)).toMatchObject({ code: 2, err: expect.stringContaining("--yes") });
  const no = await run(cancel, { isTerminal: true, stdin: "n\n" });
  expect([no.code, no.err]).toEqual([1, "Cancel 2 deliveries? [y/N] Nothing was cancelled.\n"]);
  expect((await run([...cancel, "--yes"])).out).toBe("cancelled 2 deliveries\n");
  expect(await run(["cancel"])).toMatchObject({ code: 2, err: expect.stringContaining("either ids or a filter") });
  await run(["resume", url]);
  const replay = await run(["replay", "--state", "cancelled", "--dry-run"]);
  expect([replay.code, lines(replay.out)[0]]).toEqual([0, "would send 2 deliveries again"]);
  expect(application.seen).toHaveLength(2);

  const [id = ""] = await idsOf(all, "list");
  const assigned = await run(["assign", id, "ada"]);
  expect([assigned.code, assigned.out]).toEqual([0, `assigned the webhook ${id} to ada; 1 delivery created\n`]);
  await application.got(3);
  expect((await run(["get", id])).out).toContain("assigned to ada by admin-key");
  expect((await run(["list", "--text", "ada%40example", "--kind", ""])).out).toContain(id);
});
