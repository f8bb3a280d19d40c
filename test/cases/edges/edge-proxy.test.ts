import { expect, it, onTestFinished, vi } from "vitest";
import { startHttpProvider } from "../../support/edges/http-provider.ts";
import { startPlayedBroker } from "../../support/edges/played-broker.ts";
import { startTestEdge } from "../../support/edges/test-edge.ts";
import { sendConnect } from "../../support/peers/forward-proxied.ts";
import { secretKey } from "../../support/sidecar/harness.ts";

interface StartOptions {
  readonly env?: Readonly<Record<string, string>>;
  readonly now?: () => number;
  /** The broker's clock. */
  readonly clock?: () => number;
}

async function start({ clock, ...options }: StartOptions = {}) {
  const provider = await startHttpProvider();
  const broker = await startPlayedBroker(provider.url);
  broker.clock = clock;
  broker.keys.set(secretKey, "service");
  broker.connections.set("ada", { token: "first", version: "1" });
  const edge = await startTestEdge({
    brokers: [broker.url],
    ...options,
    env: { LATCHKEY_ALLOW_PRIVATE: provider.url, ...options.env },
  });
  return { provider, broker, edge };
}

const wants = (received: readonly { readonly case: string | undefined }[], kind: string) =>
  received.filter((one) => one.case === kind).length;

it("sends a request with credentials that it gets from a broker", async () => {
  const { provider, edge } = await start();
  const response = await edge.proxy("ada", { path: "/files?x=1" });
  expect(response.status).toBe(200);
  expect(provider.requests.at(-1)).toMatchObject({ url: "/files?x=1", authorization: "Bearer first" });
});

it("asks once for callers that come together, and then never again", async () => {
  const { broker, edge } = await start();
  const all = await Promise.all(Array.from({ length: 20 }, () => edge.proxy("ada")));
  expect(all.map(({ status }) => status)).toEqual(Array(20).fill(200));
  for (let i = 0; i < 5; i += 1) expect((await edge.proxy("ada")).status).toBe(200);
  expect(wants(broker.received, "wantConnection")).toBe(1);
  expect(wants(broker.received, "wantKey")).toBe(1);
});

it("refuses unknown keys and unknown connections with the faults of the broker", async () => {
  const { edge } = await start();
  const unknown = await edge.proxy("nobody");
  expect([unknown.status, unknown.headers.get("latchkey-error")]).toEqual([404, "unknown_connection"]);
  const stranger = await edge.proxy("ada", { key: "lk_nobody-knows-this-key" });
  expect([stranger.status, stranger.headers.get("latchkey-error")]).toEqual([401, "unknown_key"]);
});

it("uses a change as soon as the broker tells it", async () => {
  const { provider, broker, edge } = await start();
  await edge.proxy("ada");
  broker.connections.set("ada", { token: "second", version: "2" });
  broker.pushConnection("ada");
  await expect
    .poll(async () => (await edge.proxy("ada")).status && provider.requests.at(-1)?.authorization)
    .toBe("Bearer second");
});

it("forgets a revoked connection and a revoked key at once", async () => {
  const { broker, edge } = await start();
  expect((await edge.proxy("ada")).status).toBe(200);
  broker.connections.delete("ada");
  broker.pushConnection("ada");
  await expect.poll(async () => (await edge.proxy("ada")).status).toBe(404);
  broker.keys.delete(secretKey);
  broker.pushKey(secretKey);
  await expect.poll(async () => (await edge.proxy("ada")).status).toBe(401);
});

it("asks for other credentials when the provider refuses them", async () => {
  const { provider, broker, edge } = await start();
  await edge.proxy("ada");
  provider.refused.add("Bearer first");
  broker.onRefused = () => broker.connections.set("ada", { token: "renewed", version: "2" });
  expect((await edge.proxy("ada")).status).toBe(200);
  expect(provider.requests.at(-1)?.authorization).toBe("Bearer renewed");
});

it("keeps a connection whose refused credentials cannot be replaced now", async () => {
  const { provider, broker, edge } = await start();
  await edge.proxy("ada");
  provider.refused.add("Bearer first");
  const fault = { code: "refresh_unavailable", message: "the provider does not answer" };
  broker.onRefused = () => broker.connections.set("ada", { token: "first", version: "1", fault });
  expect((await edge.proxy("ada")).status).toBe(401);
  provider.refused.clear();
  expect((await edge.proxy("ada")).status).toBe(200);
});

it("goes on while brokers are away, and says so", async () => {
  const { broker, edge } = await start();
  await edge.proxy("ada");
  await broker.kill();
  await expect.poll(async () => (await edge.ready()).text).toMatch(/^ok: brokers away since 20/);
  for (let i = 0; i < 50; i += 1) expect((await edge.proxy("ada")).status).toBe(200);
  expect(await edge.metric("latchkey_edge_connected")).toBe(0);
  const unknown = await edge.proxy("bob");
  expect([unknown.status, unknown.headers.get("latchkey-error")]).toEqual([503, "brokers_unavailable"]);
  await broker.start();
  await expect.poll(() => edge.ready()).toEqual({ status: 200, text: "ok\n" });
});

it("says what it has when it connects again, and takes over only what differs", async () => {
  const { provider, broker, edge } = await start();
  broker.connections.set("bob", { token: "of-bob", version: "1" });
  await edge.proxy("ada");
  await edge.proxy("bob");
  await broker.kill();
  broker.connections.set("ada", { token: "meanwhile", version: "2" });
  await broker.start();
  await expect.poll(() => wants(broker.received, "hello")).toBe(2);
  await expect
    .poll(async () => (await edge.proxy("ada")).status && provider.requests.at(-1)?.authorization)
    .toBe("Bearer meanwhile");
  const hello = broker.received.findLast((one) => one.case === "hello");
  expect(hello?.case === "hello" && hello.value.connections.map(({ ref }) => ref?.id).toSorted()).toEqual([
    "ada",
    "bob",
  ]);
  expect(wants(broker.received, "wantConnection")).toBe(2);
});

it("stops using what it has when brokers are away for too long", async () => {
  const { broker, edge } = await start({ env: { LATCHKEY_EDGE_MAX_AWAY: "1s" } });
  expect((await edge.proxy("ada")).status).toBe(200);
  await broker.kill();
  await expect.poll(async () => (await edge.proxy("ada")).headers.get("latchkey-error")).toBe("brokers_unavailable");
  const { status, text } = await edge.ready();
  expect([status, text.startsWith("brokers away since ")]).toEqual([503, true]);
});

it("uses nothing after a pause that was too long, before anything else has run", async () => {
  let aheadMs = 0;
  const { broker, edge } = await start({ now: () => Date.now() + aheadMs });
  expect((await edge.proxy("ada")).status).toBe(200);
  aheadMs = 2 * 3_600_000;
  // The broker is there: it is asked again, and then memory is good again.
  const before = wants(broker.received, "wantConnection");
  expect((await edge.proxy("ada")).status).toBe(200);
  expect(wants(broker.received, "wantConnection")).toBe(before + 1);
  expect((await edge.proxy("ada")).status).toBe(200);
  expect(wants(broker.received, "wantConnection")).toBe(before + 1);
  await broker.kill();
  await expect.poll(async () => (await edge.ready()).text).toMatch(/brokers away since/);
  expect((await edge.proxy("ada")).status).toBe(200);
  aheadMs *= 2;
  expect((await edge.proxy("ada")).headers.get("latchkey-error")).toBe("brokers_unavailable");
});

it("stops using what it has when a broker is frozen, although the clock is set back", async () => {
  let aheadMs = 0;
  const { broker, edge } = await start({
    now: () => Date.now() + aheadMs,
    env: { LATCHKEY_EDGE_MAX_AWAY: "1s" },
  });
  expect((await edge.proxy("ada")).status).toBe(200);
  broker.isFrozen = true;
  aheadMs = -3_600_000;
  await expect.poll(async () => (await edge.proxy("ada")).headers.get("latchkey-error")).toBe("brokers_unavailable");
  await expect.poll(async () => (await edge.ready()).status).toBe(503);
});

it("passes on a provider's 401 without a question while brokers are away", async () => {
  const { provider, broker, edge } = await start();
  expect((await edge.proxy("ada")).status).toBe(200);
  await broker.kill();
  await expect.poll(async () => (await edge.ready()).text).toMatch(/brokers away since/);
  provider.refused.add("Bearer first");
  const refused = await edge.proxy("ada");
  expect([refused.status, refused.headers.get("latchkey-error")]).toEqual([401, null]);
  expect(await edge.metric('latchkey_edge_questions_total{kind="connection",outcome="lost"}')).toBeUndefined();
});

it("answers with the details of the broker's fault", async () => {
  const { broker, edge } = await start();
  const mistakes = [{ path: ["domain"], message: "is missing" }];
  const payload = { choices: ["one", "two"] };
  broker.connections.set("open", {
    ...{ token: "", version: "" },
    fault: {
      ...{ code: "choice_needed", message: "choose first" },
      detailsJson: JSON.stringify({ mistakes, payload, retryAfterSeconds: 7 }),
    },
  });
  const answer = await edge.proxy("open");
  expect([answer.status, answer.headers.get("retry-after")]).toEqual([424, "7"]);
  const text = await answer.text();
  for (const detail of ["is missing", "choices", "two"]) expect(text).toContain(detail);
});

it("serves no credentials after their end", async () => {
  const { broker, edge } = await start();
  broker.connections.set("soon", { token: "t", version: "1", validUntilMs: Date.now() + 1_500 });
  expect((await edge.proxy("soon")).status).toBe(200);
  await broker.kill();
  await expect.poll(async () => (await edge.proxy("soon")).status).toBe(503);
  expect((await edge.proxy("ada")).status).toBe(503);
});

it("forgets the least recently used connection beyond its limit, and tells the broker", async () => {
  const { broker, edge } = await start({ env: { LATCHKEY_EDGE_MAX_CONNECTIONS: "2" } });
  for (const id of ["bob", "cleo"]) broker.connections.set(id, { token: id, version: "1" });
  for (const id of ["ada", "bob", "cleo"]) expect((await edge.proxy(id)).status).toBe(200);
  await expect.poll(() => wants(broker.received, "dropConnection")).toBe(1);
  expect(await edge.metric('latchkey_edge_held{kind="connection"}')).toBe(2);
  expect((await edge.proxy("ada")).status).toBe(200);
  expect(wants(broker.received, "wantConnection")).toBe(4);
});

it("goes to another broker when one is about to stop, without a failed request", async () => {
  const { provider, broker, edge } = await start();
  await edge.proxy("ada");
  const before = wants(broker.received, "hello");
  broker.push({ case: "leave", value: {} });
  await expect.poll(() => wants(broker.received, "hello")).toBeGreaterThan(before);
  await expect.poll(() => broker.count()).toBe(1);
  expect((await edge.proxy("ada")).status).toBe(200);
  expect(provider.requests.length).toBe(2);
});

it.each([
  ["when it connects again", true],
  ["by the broker's heartbeats", false],
])("learns that its clock was set, and when credentials end: %s", async (_how, isReconnected) => {
  let aheadMs = 3_600_000;
  const { broker, edge } = await start({ now: () => Date.now() + aheadMs, clock: Date.now });
  broker.connections.set("soon", { token: "t", version: "1", validUntilMs: Date.now() + 1_500 });
  expect((await edge.proxy("soon")).status).toBe(200);
  expect(wants(broker.received, "wantConnection")).toBe(1);
  if (isReconnected) await broker.kill();
  aheadMs = 0;
  if (isReconnected) {
    await broker.start();
    await expect.poll(() => wants(broker.received, "hello")).toBe(2);
    await expect.poll(() => edge.metric("latchkey_edge_connected")).toBe(1);
    broker.clock = undefined;
  }
  const asked = async () => (await edge.proxy("soon")).status && wants(broker.received, "wantConnection");
  await expect.poll(asked).toBeGreaterThan(1);
});

it("connects less and less often to a broker that ends each stream", async () => {
  const { broker } = await start();
  broker.isFailing = true;
  const random = vi.spyOn(Math, "random").mockReturnValue(0.5);
  onTestFinished(() => void random.mockRestore());
  await broker.kill();
  await broker.start();
  const hellos = wants(broker.received, "hello");
  await expect.poll(() => wants(broker.received, "hello")).toBeGreaterThan(hellos);
  const since = performance.now();
  await expect.poll(() => wants(broker.received, "hello"), { interval: 5 }).toBe(hellos + 5);
  // Without longer waits: 0.3 s.
  expect(performance.now() - since).toBeGreaterThan(1_000);
});

it("says that brokers are too old for its forward proxy", async () => {
  const { edge } = await start({ env: { LATCHKEY_FORWARD_PROXY_LISTEN: "127.0.0.1:0" } });
  const { status, text } = await sendConnect(edge.forward, "api.provider.test:443");
  expect([status, text]).toEqual([501, expect.stringContaining("update the brokers")]);
  // The stream, which such a broker would end, goes on.
  expect((await edge.proxy("ada")).status).toBe(200);
});

it("does not start without the file of its authorities, and without a use for it", async () => {
  const file = { LATCHKEY_FORWARD_PROXY_CA_FILE: "/no/such/folder/ca.pem" };
  await expect(start({ env: file })).rejects.toThrow("needs LATCHKEY_FORWARD_PROXY_LISTEN");
});
