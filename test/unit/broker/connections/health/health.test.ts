import { clone, toBinary } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { expect, it } from "vitest";
import type { RefreshFailure } from "../../../../../src/broker/connections/health/refresh-bookkeeping.ts";
import { Connection_State } from "../../../../../src/gen/latchkey/v1/connection_pb.ts";
import type { Credentials } from "../../../../../src/gen/latchkey/v1/credentials_pb.ts";
import { OAuthApp_Publishing } from "../../../../../src/gen/latchkey/v1/integration_pb.ts";
import { LogSchema } from "../../../../../src/gen/latchkey/v1/log_pb.ts";
import {
  type Provider,
  ProviderSchema,
  RefreshTokenRules_Use,
} from "../../../../../src/gen/latchkey/v1/provider_pb.ts";
import { StaleWrite } from "../../../../../src/store/contract.ts";
import { type OpenBroker, openTestBroker, refOf } from "../../open-broker.ts";
import { testWorld } from "../../world.ts";

const { ACTIVE, EXPIRING, REFRESH_FAILING, REAUTHORIZATION_REQUIRED } = Connection_State;
const hour = 3_600_000;

const tokens = (refreshToken = "1//the-refresh-token", more: object = {}) =>
  ({ case: "oauth2", value: { accessToken: "ya29.the-access-token", refreshToken, ...more } }) as const;

/** The same provider, whose every response has a new refresh token. */
function rotating(provider: Provider): Provider {
  const changed = clone(ProviderSchema, provider);
  if (changed.auth.case !== "oauth2" || changed.auth.value.refreshTokens === undefined) throw new Error("not OAuth 2");
  changed.auth.value.refreshTokens.use = RefreshTokenRules_Use.ROTATES;
  return changed;
}

/** Records a failed token request, as the refresher does. */
async function fail(
  { broker, store, known, equipment }: OpenBroker,
  failure: RefreshFailure,
  id = "ada",
  as: (provider: Provider) => Provider = (provider) => provider,
) {
  const seen = await known(id);
  const given = await equipment(id);
  const worksWith = { ...given, provider: as(given.provider) };
  const log = broker.health.beginLog({
    operation: "auth.refresh",
    ref: refOf(id),
    credentials: worksWith.credentials,
    secrets: undefined,
  });
  log.info("the token endpoint was asked", { host: "oauth2.googleapis.com", attempt: 1 });
  const noted = broker.health.noteFailure(seen, { ...worksWith, failure, log });
  await store.commit(noted.changes, noted.conditions);
  return noted;
}

async function intend({ broker, store, known }: OpenBroker, token: string, id = "ada") {
  const { changes, conditions } = broker.health.noteIntent(await known(id), { attemptId: "a", token });
  await store.commit(changes, conditions);
}

async function succeed({ broker, store, known, equipment }: OpenBroker, credentials: Credentials, isAskedFor = false) {
  const seen = await known("ada");
  const worksWith = { ...(await equipment("ada")), credentials };
  const log = broker.health.beginLog({ operation: "auth.refresh", ref: refOf("ada"), credentials, secrets: undefined });
  const { changes, conditions } = broker.health.noteSuccess(seen, { ...worksWith, log, isAskedFor });
  await store.commit(changes, conditions);
}

const dead: RefreshFailure = { kind: "grant_dead", code: "invalid_grant" };
const away: RefreshFailure = { kind: "passing", code: "server_error" };

async function stateOf({ known }: OpenBroker, id = "ada") {
  const { value } = (await known(id)).connection;
  return { state: value.state, reason: value.stateReason, errors: value.errors.map(({ type }) => type) };
}

const logsOf = ({ broker }: OpenBroker) =>
  broker.logs.list(
    { environment: "dev", integration: "calendar", connectionId: "ada", operation: "", failed: false },
    { size: 100, token: "" },
  );

it("changes a connection when its state changes, and not with each failure", async () => {
  const world = testWorld();
  const open = await openTestBroker(world);
  await open.import("ada", tokens());
  const before = (await open.known("ada")).connection.revision;
  await fail(open, away);
  const first = (await open.known("ada")).connection.revision;
  expect(await stateOf(open)).toEqual({ state: REFRESH_FAILING, reason: "provider_unavailable", errors: [] });
  for (let i = 0; i < 3; i += 1) {
    world.advance(hour);
    await fail(open, away);
  }
  const later = await open.known("ada");
  expect([first > before, later.connection.revision === first, later.record?.value.failures]).toEqual([true, true, 4]);
  world.advance(72 * hour);
  await fail(open, away);
  expect(await stateOf(open)).toMatchObject({ state: REFRESH_FAILING, reason: "failing_for_days" });
});

it("logs what happened to a dead connection, and its possible causes", async () => {
  const world = testWorld();
  const open = await openTestBroker(world, { publishing: OAuthApp_Publishing.TESTING });
  await open.import("ada", tokens());
  const { record } = await fail(open, dead);
  expect(record?.deadReason).toBe("testing_grant_expired");
  const { errors } = (await open.known("ada")).connection.value;
  expect(await stateOf(open)).toEqual({
    state: REAUTHORIZATION_REQUIRED,
    reason: "testing_grant_expired",
    errors: ["auth"],
  });
  const log = await open.broker.logs.get({ environment: "dev", id: errors[0]?.logId ?? "" });
  expect(log).toMatchObject({ operation: "auth.refresh", connectionId: "ada", failed: true, truncated: false });
  expect(log.lines.map(({ message }) => message).slice(0, 3)).toEqual([
    "the token endpoint was asked",
    "the provider no longer accepts the refresh token: the end user must authorize again",
    "likely cause",
  ]);
  const causes = log.lines.flatMap(({ fields }) => fields?.["cause"] ?? []);
  expect(causes).toContain("too_many_grants");
  expect(log.lines.map(({ fields }) => fields?.["detail"]).join(" ")).toContain("expire 7 days after they were issued");
  expect(Buffer.from(toBinary(LogSchema, log)).includes("the-refresh-token")).toBe(false);
});

it("reports a lost answer when the previously sent token is dead", async () => {
  const world = testWorld();
  const open = await openTestBroker(world);
  await open.import("ada", tokens());
  await intend(open, "1//the-refresh-token");
  await fail(open, { kind: "uncertain", code: "reset" });
  expect(await stateOf(open)).toMatchObject({ state: REFRESH_FAILING, reason: "answer_lost" });
  await intend(open, "1//the-refresh-token");
  const { record } = await fail(open, dead, "ada", rotating);
  expect([record?.deadReason, record?.intent]).toEqual(["rotation_response_lost", undefined]);
  const [log] = (await logsOf(open)).items;
  const causes = log?.lines.flatMap(({ fields }) => fields?.["cause"] ?? []);
  expect(causes?.slice(0, 2)).toEqual(["rotation_response_lost", "revoked"]);
});

it("keeps the log of the failure, whatever is tried afterwards", async () => {
  const open = await openTestBroker(testWorld());
  await open.import("ada", tokens());
  await fail(open, dead);
  const [before] = (await open.known("ada")).connection.value.errors;
  await fail(open, dead);
  expect((await open.known("ada")).connection.value.errors).toEqual([before]);
});

it("recovers after a refresh, records the time, and logs it", async () => {
  const world = testWorld();
  const open = await openTestBroker(world);
  await open.import("ada", tokens());
  await fail(open, away);
  const { credentials } = await open.equipment("ada");
  await succeed(open, credentials);
  expect(await stateOf(open)).toEqual({ state: ACTIVE, reason: "", errors: [] });
  const { record } = await open.known("ada");
  expect(record?.value).toMatchObject({ failures: 0, lastSucceededAt: timestampFromMs(world.now()) });
  const { items } = await logsOf(open);
  expect(items.map(({ failed }) => failed)).toEqual([false, true]);
  // A regular connection causes no event, unless one was requested.
  await succeed(open, credentials);
  expect((await logsOf(open)).items).toHaveLength(2);
  await succeed(open, credentials, true);
  expect((await logsOf(open)).items).toHaveLength(3);
});

it("clears all failures, in the same commit, when new credentials are imported", async () => {
  const open = await openTestBroker(testWorld());
  await open.import("ada", tokens());
  await fail(open, dead);
  await open.import("ada", tokens("1//another"));
  expect(await stateOf(open)).toEqual({ state: ACTIVE, reason: "", errors: [] });
  expect((await open.known("ada")).record).toBeUndefined();
});

it("neither keeps a failure of replaced credentials after an import, nor loses the import", async () => {
  const open = await openTestBroker(testWorld());
  await open.import("ada", tokens());
  const seen = await open.known("ada");
  const worksWith = await open.equipment("ada");
  await open.import("ada", tokens("1//another"));
  const log = open.broker.health.beginLog({
    operation: "auth.refresh",
    ref: refOf("ada"),
    ...worksWith,
    secrets: undefined,
  });
  const { changes } = open.broker.health.noteFailure(seen, { ...worksWith, failure: dead, log });
  await expect(open.store.commit(changes)).rejects.toBeInstanceOf(StaleWrite);
});

it("clears on import also failures recorded during the import", async () => {
  const open = await openTestBroker(testWorld());
  await open.import("ada", tokens());
  for (let i = 0; i < 30; i += 1) {
    const { changes, conditions } = open.broker.health.noteIntent(await open.known("ada"), {
      attemptId: "a",
      token: "t",
    });
    const noted = open.store.commit(changes, conditions).catch((error: unknown) => {
      if (!(error instanceof StaleWrite)) throw error;
    });
    await Promise.all([open.import("ada", tokens(`1//round-${i}`)), noted]);
    expect((await open.known("ada")).record).toBeUndefined();
  }
});

it("records nothing for a connection that is being deleted", async () => {
  const open = await openTestBroker(testWorld());
  await open.import("ada", tokens());
  const { changes, conditions } = await open.broker.health.noteDeletion(refOf("ada"));
  // Only the lease of a process that may have died.
  expect(changes.map(({ key, value }) => [key.split("\0")[0], value])).toEqual([
    ["lease", undefined],
    ["lease-term", undefined],
  ]);
  const late = open.broker.health.noteIntent(await open.known("ada"), { attemptId: "a", token: "t" });
  await intend(open, "t");
  await expect(open.store.commit([{ key: "x", value: Buffer.from("x") }], conditions)).rejects.toBeInstanceOf(
    StaleWrite,
  );
  await open.broker.connections.delete({ ref: refOf("ada"), expectedRevision: 0n }, "test");
  await expect(open.store.commit(late.changes, late.conditions)).rejects.toBeInstanceOf(StaleWrite);
});

it("stores refreshed credentials only in place of the ones that were refreshed", async () => {
  const open = await openTestBroker(testWorld());
  await open.import("ada", tokens());
  const seen = await open.known("ada");
  const worksWith = await open.equipment("ada");
  await open.import("ada", tokens("1//another"));
  const log = open.broker.health.beginLog({
    operation: "auth.refresh",
    ref: refOf("ada"),
    ...worksWith,
    secrets: undefined,
  });
  const { changes } = open.broker.health.noteSuccess(seen, { ...worksWith, log, isAskedFor: true });
  await expect(open.store.commit(changes)).rejects.toBeInstanceOf(StaleWrite);
});

it("keeps nothing of a deleted connection, and a new one is healthy", async () => {
  const open = await openTestBroker(testWorld());
  await open.import("ada", tokens());
  await fail(open, dead);
  await open.broker.connections.delete({ ref: refOf("ada"), expectedRevision: 0n }, "test");
  expect(await open.store.list({ from: "refresh", to: "refresh~", limit: 10 })).toEqual([]);
  await open.import("ada", tokens());
  expect(await stateOf(open)).toMatchObject({ state: ACTIVE });
});

it("is expiring a day before its credentials expire, and then must be authorized again, by time alone", async () => {
  const world = testWorld();
  const open = await openTestBroker(world);
  await open.import("ada", tokens("", { expiresAt: timestampFromMs(world.now() + 48 * hour) }));
  expect(await stateOf(open)).toEqual({ state: ACTIVE, reason: "", errors: [] });
  expect(await open.sweepHealth()).toBe(0);
  world.advance(24 * hour);
  expect(await open.sweepHealth()).toBe(1);
  expect(await stateOf(open)).toEqual({ state: EXPIRING, reason: "credentials_expire", errors: [] });
  expect((await logsOf(open)).items).toEqual([]);
  world.advance(24 * hour);
  expect(await open.sweepHealth()).toBe(1);
  expect(await stateOf(open)).toEqual({
    state: REAUTHORIZATION_REQUIRED,
    reason: "credentials_expired",
    errors: ["auth"],
  });
  expect(await open.sweepHealth()).toBe(0);
  expect((await logsOf(open)).items).toMatchObject([{ operation: "auth.expire", failed: true }]);
});

it("lists and counts unhealthy connections without reading the others", async () => {
  const world = testWorld();
  const open = await openTestBroker(world);
  for (let i = 0; i < 30; i += 1) await open.import(`c-${String(i).padStart(2, "0")}`, tokens());
  for (const i of ["03", "11", "28"]) await fail(open, dead, `c-${i}`);
  await fail(open, away, "c-20");
  const query = { environment: "dev", integrations: [], id: "", tags: {}, search: "" };
  const listed = async (states: Connection_State[], integrations: string[] = []) => {
    const seen: string[] = [];
    let token = "";
    do {
      const { items, next } = await open.broker.listing.list({ ...query, integrations, states }, { size: 2, token });
      seen.push(...items.map(({ ref }) => ref?.id ?? ""));
      token = next;
    } while (token !== "");
    return seen;
  };
  expect(await listed([REAUTHORIZATION_REQUIRED])).toEqual(["c-03", "c-11", "c-28"]);
  expect(await listed([REAUTHORIZATION_REQUIRED, REFRESH_FAILING])).toEqual(["c-20", "c-03", "c-11", "c-28"]);
  expect(await listed([REAUTHORIZATION_REQUIRED], ["calendar"])).toEqual(["c-03", "c-11", "c-28"]);
  expect(await listed([REAUTHORIZATION_REQUIRED], ["other", "calendar", "a"])).toEqual(["c-03", "c-11", "c-28"]);
  expect(await listed([REAUTHORIZATION_REQUIRED], ["calenda"])).toEqual([]);
  expect((await listed([ACTIVE])).length).toBe(26);
  expect(await listed([EXPIRING])).toEqual([]);

  const { text } = await world.metrics.exposition();
  const counts = [...text.matchAll(/latchkey_connections_unwell\{state="(\w+)"\} (\d+)/g)].map(([, ...one]) => one);
  expect(counts).toEqual([
    ["expiring", "0"],
    ["refresh_failing", "1"],
    ["reauthorization_required", "3"],
  ]);
});
