import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { Webhook } from "standardwebhooks";
import { expect, onTestFinished, test } from "vitest";
import { EnvironmentService } from "../../../src/gen/latchkey/v1/environment_pb.ts";
import { Forward_State as State, WebhookService } from "../../../src/gen/latchkey/v1/webhook_pb.ts";
import { startApplication } from "../../support/peers/application.ts";
import { seeded } from "../../support/runner/seeded.ts";
import { startStopwatch } from "../../support/runner/stopwatch.ts";
import { adminKey } from "../../support/sidecar/harness.ts";
import { calendarUri, type Receiving, startReceiving } from "../../support/sidecar/receiving.ts";

const hour = 3_600_000;
const uri = calendarUri("ada");
const webhooksOf = ({ sidecar }: Receiving) => sidecar.client(WebhookService, adminKey);
const environment = "dev";

async function onlyForward(receiving: Receiving) {
  const { forwards } = await webhooksOf(receiving).listForwards({ environment });
  expect(forwards).toHaveLength(1);
  return webhooksOf(receiving).getForward({ environment, id: forwards[0]?.id ?? "" });
}

const stateBecomes = (receiving: Receiving, state: State, timeout = 10_000) =>
  expect
    .poll(async () => (await webhooksOf(receiving).listForwards({ environment })).forwards.map((one) => one.state), {
      timeout,
    })
    .toEqual([state]);

test("W03 an application that is down for 26 hours gets everything once it is up, and no more at once than may be", async () => {
  let now = Date.now();
  const receiving = await startReceiving({
    now: () => now,
    env: { LATCHKEY_CONFIG: "/latchkey.yaml" },
    files: { "/latchkey.yaml": "webhooks: { per_destination: 5 }" },
  });
  const { application, notifyOf, sidecar } = receiving;
  const { port } = new URL(application.url);
  await application.close();
  for (let number = 1; number <= 40; number += 1) expect(await notifyOf(uri, number)).toBe(200);
  // Each wait of the schedule passes while the application is down.
  for (const wait of [0, 7_000, 0.2 * hour, 0.8 * hour, 3 * hour, 7 * hour, 13 * hour]) {
    now += wait;
    await sleep(1_500);
  }
  const up = await startApplication({ port: Number(port) });
  up.answer = (_, response) => void setTimeout(() => response.end(), 20);
  expect(await sidecar.metric("latchkey_outbox_forwards")).toBe(40);
  now += 18 * hour;
  const seen = await up.got(40);
  expect(new Set(seen.map(({ headers }) => headers["webhook-id"])).size).toBe(40);
  expect(up.atOnce()).toBeLessThanOrEqual(5);
  await expect.poll(() => sidecar.metric("latchkey_outbox_forwards")).toBe(0);
  const { attempts } = await webhooksOf(receiving).getForward({
    environment,
    id: String(seen[0]?.headers["webhook-id"]),
  });
  expect(attempts.length).toBeGreaterThanOrEqual(4);
  expect(attempts.at(-1)).toMatchObject({ status: 200, error: "" });
  expect(attempts[0]).toMatchObject({ status: 0, error: "refused" });
});

test.each([
  ["500", {}, 5_000, 6_000],
  ["429 in 30 s", { "retry-after": "30" }, 30_000, 30_000],
  ["429 at a date", { "retry-after": "Sun, 22 Nov 2026 00:01:00 GMT" }, 60_000, 60_000],
  ["429 with -1", { "retry-after": "-1" }, 5_000, 6_000],
  ["429 with 1e12", { "retry-after": "1e12" }, 5_000, 6_000],
  ["429 in 999,999,999,999 s", { "retry-after": "999999999999" }, 24 * hour, 24 * hour],
  ["429 with abc", { "retry-after": "abc" }, 5_000, 6_000],
  ["503 in 0 s", { "retry-after": "0" }, 1_000, 1_000],
])(
  "W04 an application that answers %s is retried when it asked for, within limits",
  async (what, headers, least, most) => {
    const now = Date.parse("2026-11-22T00:00:00Z");
    const receiving = await startReceiving({ now: () => now });
    receiving.application.answer = (_, response) =>
      void response.writeHead(Number(what.slice(0, 3)), headers).end("no");
    await receiving.notifyOf(uri);
    await receiving.application.got(1);
    await expect.poll(async () => (await onlyForward(receiving)).attempts.length).toBe(1);
    const { forward, attempts } = await onlyForward(receiving);
    const waits =
      Number(forward?.nextAttemptAt?.seconds ?? 0n) * 1_000 + (forward?.nextAttemptAt?.nanos ?? 0) / 1e6 - now;
    expect(waits).toBeGreaterThanOrEqual(least);
    expect(waits).toBeLessThanOrEqual(most);
    expect(forward?.state).toBe(State.PENDING);
    expect(Buffer.from(attempts[0]?.answer ?? []).toString()).toBe("no");
  },
);

test.each([301, 302, 303, 307, 308])(
  "W05 a redirect (%i) is a failure, and where it leads is not visited",
  async (status) => {
    const elsewhere = await startApplication();
    const receiving = await startReceiving();
    receiving.application.answer = (_, response) => void response.writeHead(status, { location: elsewhere.url }).end();
    await receiving.notifyOf(uri);
    await expect.poll(async () => (await onlyForward(receiving)).attempts.length).toBe(1);
    const { forward, attempts } = await onlyForward(receiving);
    expect(attempts[0]?.status).toBe(status);
    expect([forward?.state, forward?.stateReason]).toEqual([State.PENDING, `status_${status}`]);
    expect(elsewhere.seen).toHaveLength(0);
  },
);

test("W06 410 pauses the address, keeps the queue, and is reported; after a resume everything arrives", async () => {
  const receiving = await startReceiving();
  const { application, notifyOf, sidecar } = receiving;
  application.answer = (_, response) => void response.writeHead(410).end();
  await notifyOf(uri, 1);
  await stateBecomes(receiving, State.PAUSED);
  const asked = application.seen.length;
  await notifyOf(uri, 2);
  await notifyOf(uri, 3);
  await sleep(1_500);
  expect(application.seen).toHaveLength(asked);
  const webhooks = webhooksOf(receiving);
  const { destinations } = await webhooks.listDestinations({ environment });
  expect(destinations).toMatchObject([{ url: application.url, paused: true, pausedReason: "gone", pending: 3n }]);
  expect(sidecar.logged.filter((line) => line.includes("answered 410"))).toHaveLength(1);
  expect(await sidecar.metric("latchkey_destinations_paused_total")).toBe(1);
  // A restart does not change that.
  await receiving.restart();
  await sleep(1_500);
  expect(application.seen).toHaveLength(asked);
  application.answer = (_, response) => void response.end();
  await webhooksOf(receiving).resumeDestination({ environment, url: application.url });
  const seen = await application.got(asked + 3);
  expect(new Set(seen.map(({ headers }) => headers["webhook-id"])).size).toBe(3);
});

test("W07 an application that accepts and never answers is cut off in time, and retried", async () => {
  const receiving = await startReceiving({
    env: { LATCHKEY_CONFIG: "/latchkey.yaml" },
    files: { "/latchkey.yaml": "webhooks: { timeout: 300ms }" },
  });
  receiving.application.answer = () => {};
  await receiving.notifyOf(uri);
  await expect.poll(async () => (await onlyForward(receiving)).attempts.length).toBe(1);
  const { attempts } = await onlyForward(receiving);
  expect(attempts[0]).toMatchObject({ status: 0, error: "deadline" });
  receiving.application.answer = (_, response) => void response.end();
  await receiving.application.got(2);
  await stateBecomes(receiving, State.DELIVERED);
});

test("W07 the default timeout of an application is fifteen seconds", async () => {
  const { sidecar } = await startReceiving();
  expect(sidecar.config.webhooks.timeoutMs).toBe(15_000);
});

test("W21 every attempt is signed again over the same id and body, by both secrets in a rotation", async () => {
  let now = Math.floor(Date.now() / 1_000) * 1_000;
  const receiving = await startReceiving({ now: () => now });
  const { application, notifyOf, sidecar } = receiving;
  const environments = sidecar.client(EnvironmentService, adminKey);
  const secretNow = async () =>
    (await environments.listSigningSecrets({ environment, reveal: true })).secrets.map(({ secret }) => secret);
  application.answer = (_, response) => void response.writeHead(500).end();
  await notifyOf(uri, 1);
  await application.got(1);
  const [former = ""] = await secretNow();
  await environments.rotateSigningSecret({ environment });
  const [newest = ""] = await secretNow();
  application.answer = (_, response) => void response.end();
  now += 10_000;
  const [first, second] = await application.got(2);
  if (first === undefined || second === undefined) throw new Error("two attempts were made");
  expect(second.headers["webhook-id"]).toBe(first.headers["webhook-id"]);
  expect(second.body).toBe(first.body);
  expect(Number(second.headers["webhook-timestamp"])).toBe(Number(first.headers["webhook-timestamp"]) + 10);
  expect(first.headers["webhook-signature"]?.toString().split(" ")).toHaveLength(1);
  expect(second.headers["webhook-signature"]?.toString().split(" ")).toHaveLength(2);
  const verify = (secret: string, { headers, body }: typeof first) =>
    new Webhook(secret).verify(body, headers as Record<string, string>);
  expect(verify(former, first)).toEqual(JSON.parse(first.body));
  expect(verify(former, second)).toEqual(JSON.parse(second.body));
  expect(verify(newest, second)).toEqual(JSON.parse(second.body));
  expect(() => verify(newest, first)).toThrow();
});

test.each([
  ["a link-local address", "https://169.254.169.254/latest"],
  ["a loopback address in the open", "http://127.0.0.1:9/hook"],
  ["a name that leads to a private address", "https://rebinding.example/hook"],
])(
  "W22 a connection's own address that is %s is refused at sending, and the delivery fails with the reason",
  async (_, url) => {
    const receiving = await startReceiving({ resolve: async () => [{ address: "10.0.0.1", family: 4 }] });
    const { connect, notifyOf, application } = receiving;
    const before = await receiving.sidecar.rest("POST", "/connections", {
      body: {
        provider_config_key: "calendar",
        connection_id: "ada",
        credentials: { type: "OAUTH2", access_token: "t" },
        metadata: { emailAddress: "ada@example.com" },
        webhook_url_override: url,
      },
    });
    if (before.status !== 201) {
      // An address that is visibly wrong is refused.
      expect(before.status).toBe(400);
      return;
    }
    await connect("bob", { metadata: { emailAddress: "bob@example.com" } });
    await notifyOf(calendarUri("ada@example.com"), 1);
    await stateBecomes(receiving, State.DEAD);
    const { forward } = await onlyForward(receiving);
    expect(forward?.stateReason).toBe("address_forbidden");
    await notifyOf(calendarUri("bob@example.com"), 2);
    await application.got(1);
  },
);

test("W23 replays keep the id, one at a time, by id and by filter", async () => {
  let now = Date.now();
  const receiving = await startReceiving({ now: () => now });
  const { application, notifyOf } = receiving;
  const webhooks = webhooksOf(receiving);
  for (const number of [1, 2, 3]) await notifyOf(uri, number);
  await application.got(3);
  await expect
    .poll(
      async () => (await webhooks.listForwards({ environment, filter: { states: [State.DELIVERED] } })).forwards.length,
    )
    .toBe(3);
  const [id = ""] = application.seen.map(({ headers }) => String(headers["webhook-id"]));
  expect(await webhooks.replayForwards({ environment, ids: [id, "msg_nobody"] })).toMatchObject({
    replayed: 1n,
    refused: { msg_nobody: { code: "not_found" } },
  });
  const again = await application.got(4);
  expect(again[3]?.headers["webhook-id"]).toBe(id);
  expect(again[3]?.body).toBe(again[0]?.body);
  const since = { seconds: BigInt(Math.floor(now / 1_000) - 60), nanos: 0 };
  expect(await webhooks.replayForwards({ environment, filter: { integration: "calendar", since } })).toMatchObject({
    replayed: 3n,
  });
  await application.got(7);
  // A delivery that waits for its retry is sent at once, and once.
  application.answer = (_, response) => void response.writeHead(500).end();
  await notifyOf(uri, 4);
  await application.got(8);
  const waiting = String(application.seen[7]?.headers["webhook-id"]);
  // Until the attempt is stored, the delivery counts as untried and is sent by itself.
  const tried = async () => (await webhooks.getForward({ environment, id: waiting })).attempts.length;
  await expect.poll(tried).toBe(1);
  application.answer = (_, response) => void setTimeout(() => response.end(), 200);
  await Promise.all([1, 2, 3].map(() => webhooks.replayForwards({ environment, ids: [waiting] })));
  await application.got(9);
  now += 10_000;
  await sleep(2_500);
  const sent = application.seen.filter(({ headers }) => headers["webhook-id"] === waiting);
  // Replayed while it was under way it may go out once more, never two at a time.
  expect(sent.length).toBeLessThanOrEqual(4);
  for (const [i, one] of sent.entries()) if (i > 1) expect(one.at - (sent[i - 1]?.at ?? 0)).toBeGreaterThanOrEqual(190);
});

test("W24 at the end of its schedule a delivery has failed, is listed and counted, survives a restart, and can be replayed", async () => {
  let now = Date.now();
  const receiving = await startReceiving({ now: () => now });
  const { application, notifyOf, sidecar } = receiving;
  application.answer = (_, response) => void response.writeHead(500).end();
  await notifyOf(uri, 1);
  for (let attempt = 1; attempt <= 10; attempt += 1) {
    await application.got(attempt);
    await expect.poll(async () => (await onlyForward(receiving)).attempts.length).toBe(attempt);
    now += 30 * hour;
  }
  await stateBecomes(receiving, State.DEAD);
  expect(await sidecar.metric("latchkey_dead_letters_total")).toBe(1);
  await receiving.restart();
  const webhooks = webhooksOf(receiving);
  const { forwards } = await webhooks.listForwards({ environment, filter: { states: [State.DEAD] } });
  expect(forwards).toMatchObject([{ stateReason: "status_500", attemptCount: 10 }]);
  application.answer = (_, response) => void response.end();
  await webhooks.replayForwards({ environment, filter: { states: [State.DEAD] } });
  await application.got(11);
  await stateBecomes(receiving, State.DELIVERED);
});

test("W25 a destination that takes its time holds up no other", async () => {
  const receiving = await startReceiving({
    env: { LATCHKEY_ALLOW_PRIVATE: "http://127.0.0.1:1", LATCHKEY_CONFIG: "/latchkey.yaml" },
    // No attempt ends during this test, so a forward that waits for one never arrives.
    files: { "/latchkey.yaml": "webhooks: { timeout: 5m }" },
  });
  const { sidecar, application } = receiving;
  const environments = sidecar.client(EnvironmentService, adminKey);
  await environments.createEnvironment({ name: "slow" });
  const slow = await startApplication();
  slow.answer = () => {};
  await environments.updateEnvironment({ environment: { name: "slow", forwardUrl: slow.url } });
  const { secret } = await environments.createKey({ environment: "slow" });
  await sidecar.rest("POST", "/integrations", {
    key: secret,
    body: { unique_key: "slow-key", provider: "private-api-key" },
  });
  const { body } = await sidecar.rest("GET", "/integrations/slow-key?include=webhook", { key: secret });
  const address = `${sidecar.data}${new URL(body.data.webhook_url).pathname}`;
  for (let i = 0; i < 100; i += 1) await fetch(address, { method: "POST", body: `{"n":${i}}` });
  await slow.got(32);
  for (let n = 1; n <= 50; n += 1) {
    await receiving.notifyOf(uri, n);
    await application.got(n);
  }
  // All of them are still under way.
  expect(slow.seen).toHaveLength(32);
});

test("W25 a hundred dead overrides, each with more waiting than may be under way, hold up no other destination", async () => {
  const dead = await startApplication();
  dead.answer = () => {};
  const receiving = await startReceiving({
    env: { LATCHKEY_ALLOW_PRIVATE: `http://127.0.0.1:${new URL(dead.url).port}` },
  });
  const { application, connect, notifyOf } = receiving;
  const team = calendarUri("team");
  const metadata = { calendarWatchResourceUris: [team] };
  for (let i = 0; i < 100; i += 1) await connect(`dead-${i}`, { webhook_url_override: `${dead.url}/${i}`, metadata });
  for (let n = 1; n <= 20; n += 1) await notifyOf(team, n, { "x-cal-channel-id": `channel-${n}` });
  // As many as may be in progress at once.
  await dead.got(512);
  for (let n = 1; n <= 5; n += 1) {
    await notifyOf(uri, n, { "x-cal-channel-id": "alive" });
    // The dead ones are waited for three times as long.
    await application.got(n);
  }
});

test("first attempts of one channel are sent one after another, in the order of their numbers", async () => {
  const receiving = await startReceiving();
  const { application, notifyOf } = receiving;
  const random = seeded(1);
  application.answer = (_, response) => void setTimeout(() => response.end(), random() * 20);
  // Two concurrent senders, each in its own order.
  const of = (channel: string) => async () => {
    for (let number = 1; number <= 30; number += 1) await notifyOf(uri, number, { "x-cal-channel-id": channel });
  };
  await Promise.all([of("a")(), of("b")()]);
  const seen = (await application.got(60)).map(({ body }) => JSON.parse(body).payload);
  for (const channel of ["a", "b"]) {
    const numbers = seen.filter((one) => one["x-cal-channel-id"] === channel);
    expect(numbers.map((one) => Number(one["x-cal-message-number"]))).toEqual(
      Array.from({ length: 30 }, (_, i) => i + 1),
    );
  }
});

test("first attempts of two integrations do not wait for each other, though their channels have one name", async () => {
  const receiving = await startReceiving();
  const { application, notify } = receiving;
  await receiving.integrate("calendar", { unique_key: "calendar-2" });
  const held: (() => void)[] = [];
  application.answer = (_, response) => void held.push(() => response.end());
  const headers = { "x-cal-channel-id": "a", "x-cal-resource-uri": uri, "x-cal-message-number": "1" };
  for (const integration of ["calendar", "calendar-2"]) {
    expect((await notify({ integration, headers })).status).toBe(200);
  }
  const seen = (await application.got(2)).map(({ body }) => JSON.parse(body).providerConfigKey);
  expect(seen.toSorted()).toEqual(["calendar", "calendar-2"]);
  for (const answer of held) answer();
});

test("W28 an application that answers 200 and closes before all is read has taken it", async () => {
  const receiving = await startReceiving();
  const server = createServer((request, response) => {
    request.resume().on("end", () => {
      response.writeHead(200, { "content-length": "100" });
      response.write("only this", () => response.destroy());
    });
  }).listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  onTestFinished(() => void server.close());
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`;
  const environments = receiving.sidecar.client(EnvironmentService, adminKey);
  // The variable declares the address of `dev`; another environment's is set over the API.
  await environments.createEnvironment({ name: "other", forwardUrl: url });
  const { secret } = await environments.createKey({ environment: "other" });
  const rest = receiving.sidecar.rest;
  await rest("POST", "/integrations", { key: secret, body: { unique_key: "k", provider: "private-api-key" } });
  const { body } = await rest("GET", "/integrations/k?include=webhook", { key: secret });
  await fetch(`${receiving.sidecar.data}${new URL(body.data.webhook_url).pathname}`, { method: "POST", body: "{}" });
  const webhooks = receiving.sidecar.client(WebhookService, adminKey);
  await expect
    .poll(async () => (await webhooks.listForwards({ environment: "other" })).forwards.map(({ state }) => state))
    .toEqual([State.DELIVERED]);
});

test("W29 a stop with many waiting and some under way is in time, and loses none", async () => {
  const receiving = await startReceiving();
  const { application, notify, sidecar } = receiving;
  application.answer = () => {};
  const count = 2_000;
  for (let from = 0; from < count; from += 50) {
    const some = Array.from({ length: 50 }, (_, i) => from + i);
    const answers = await Promise.all(
      some.map((number) =>
        notify({ headers: { "x-cal-channel-id": `c-${number % 100}`, "x-cal-message-number": String(number) } }),
      ),
    );
    expect(answers.every(({ status }) => status === 200)).toBe(true);
  }
  await application.got(32);
  const elapsed = startStopwatch();
  await sidecar.stop();
  expect(elapsed.ms).toBeLessThan(8_000);
  application.answer = (_, response) => void response.end();
  await receiving.restart();
  await expect.poll(() => new Set(application.seen.map(({ headers }) => headers["webhook-id"])).size).toBe(count);
});
