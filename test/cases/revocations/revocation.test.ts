import { expect, it, onTestFinished } from "vitest";
import { ConnectionService, Revocation_State } from "../../../src/gen/latchkey/v1/connection_pb.ts";
import { LogService } from "../../../src/gen/latchkey/v1/log_pb.ts";
import { startApplication } from "../../support/peers/application.ts";
import { connect, createIntegration, remove, revocations, startRevoking, tokensIn } from "./revoking.ts";

const soon = { interval: 20 };
const basicOfApp = `Basic ${Buffer.from("app:app-secret").toString("base64")}`;
const bothRevoked = { refresh_token: "revoked", access_token: "revoked" };

it("revokes both tokens at the endpoint, the refresh token first, and says so everywhere", async () => {
  const application = await startApplication();
  onTestFinished(() => application.close());
  const { start, received } = await startRevoking();
  const { rest, client, metric } = await start({
    env: { LATCHKEY_FORWARD_URL: application.url },
  });
  await createIntegration(rest);
  await connect(rest, "ada", { more: { end_user: { id: "user-1" } } });
  const deleted = await remove(rest, "ada");
  expect(deleted.body).toMatchObject({ success: true, revocation: { state: "pending", end_user_id: "user-1" } });
  await expect.poll(() => revocations(rest, "?state=done"), soon).toHaveLength(1);
  expect(await revocations(rest)).toMatchObject([{ connection_id: "ada", tokens: bothRevoked, attempts: 1 }]);
  expect(tokensIn(received)).toEqual(["rt-ada", "at-ada"]);
  expect(received.map(({ authorization }) => authorization)).toEqual([basicOfApp, basicOfApp]);

  const told = (await application.got(2)).map(({ body }) => JSON.parse(body));
  expect(told).toMatchObject([
    { operation: "deletion", revocation: { state: "pending", tokens: { refresh_token: "pending" } } },
    { operation: "revocation", success: true, revocation: { state: "done", tokens: bothRevoked } },
  ]);
  const audited = await client(LogService).listAuditEvents({ environment: "dev", action: "connection.revoke" });
  expect(audited.events).toMatchObject([
    { targets: ["revoking/ada"], fields: ["refresh_token.revoked", "access_token.revoked"] },
  ]);
  const { logs } = await client(LogService).listLogs({ environment: "dev", operation: "connection.revoke" });
  expect(logs).toMatchObject([{ connectionId: "ada", failed: false }]);
  expect(await metric('latchkey_revoked_tokens_total{result="revoked"}')).toBe(2);
});

it("keeps grants on request, and tells what cannot be revoked", async () => {
  const { start, received } = await startRevoking({ oauth2: () => ({}) });
  const { rest, client } = await start();
  await createIntegration(rest);
  for (const id of ["ada", "bob"]) await connect(rest, id);
  expect((await remove(rest, "ada", "&keep_grant=true")).body.revocation).toMatchObject({
    state: "done",
    tokens: { refresh_token: "kept", access_token: "kept" },
    causes: { refresh_token: "requested" },
  });
  const { results } = await client(ConnectionService).batchDeleteConnections({
    deletions: [{ ref: { environment: "dev", integration: "revoking", id: "bob" }, keepGrant: true }],
  });
  expect(results).toMatchObject([{ revocation: { state: Revocation_State.DONE } }]);
  expect(received).toEqual([]);

  const without = await startRevoking({ oauth2: () => ({ revocation_url: "" }) });
  const other = await without.start();
  await createIntegration(other.rest);
  await connect(other.rest, "eve");
  expect((await remove(other.rest, "eve")).body.revocation).toMatchObject({
    state: "done",
    tokens: { refresh_token: "not_supported", access_token: "not_supported" },
  });
});

it("counts a token that ended before as revoked, and a type that the provider does not revoke as not supported", async () => {
  const { start, state } = await startRevoking();
  const { rest } = await start();
  await createIntegration(rest);
  for (const id of ["ada", "bob"]) await connect(rest, id);
  state.answer = { status: 400, body: { error: "invalid_token" } };
  await remove(rest, "ada");
  await expect.poll(() => revocations(rest, "?state=done"), soon).toHaveLength(1);
  state.answer = { status: 400, body: { error: "unsupported_token_type" } };
  await remove(rest, "bob");
  await expect.poll(() => revocations(rest, "?state=done"), soon).toHaveLength(2);
  expect(await revocations(rest)).toMatchObject([
    { connection_id: "bob", tokens: { refresh_token: "not_supported", access_token: "not_supported" } },
    { connection_id: "ada", tokens: bothRevoked },
  ]);
});

it("retries a refusal later and gives up in the end, without keeping the tokens", async () => {
  let nowMs = Date.now();
  const { start, state, received } = await startRevoking();
  const sidecar = await start({ now: () => nowMs });
  const { rest } = sidecar;
  await createIntegration(rest);
  await connect(rest, "ada");
  state.answer = { status: 401, body: { error: "invalid_client" } };
  await remove(rest, "ada");
  await sidecar.sidecar.broker.keepRevocations();
  expect(await revocations(rest)).toMatchObject([{ state: "pending", attempts: 1, last_error: "invalid_client" }]);
  for (let day = 0; day < 30; day += 1) {
    nowMs += 86_400_000;
    await sidecar.sidecar.broker.keepRevocations();
  }
  const [ended] = await revocations(rest);
  expect(ended).toMatchObject({ state: "failed", tokens: { refresh_token: "failed", access_token: "failed" } });
  const before = received.length;
  expect(before).toBeLessThanOrEqual(12);
  nowMs += 86_400_000;
  await sidecar.sidecar.broker.keepRevocations();
  expect(received).toHaveLength(before);
});

const rules = (revocation: object) => ({ oauth2: () => ({ revocation_url: "" }), description: () => ({ revocation }) });

it("sends the provider's own request: by the client, with the token in a JSON body", async () => {
  const request = {
    method: "DELETE",
    path: "/apps/${integration.clientId}/grant",
    body: '{"access_token":"${accessToken}"}',
  };
  const { start, received, state } = await startRevoking(
    rules({ request, authorization: "client", gone_statuses: [404] }),
  );
  const { rest } = await start();
  await createIntegration(rest);
  await connect(rest, "ada");
  state.answer = { status: 404 };
  await remove(rest, "ada");
  await expect.poll(() => revocations(rest, "?state=done"), soon).toMatchObject([{ tokens: bothRevoked }]);
  expect(received).toMatchObject([
    { line: "DELETE /apps/app/grant HTTP/1.1", authorization: basicOfApp, body: '{"access_token":"at-ada"}' },
  ]);
});

it("refreshes an expired access token that its own request needs, and reads the answer", async () => {
  const request = { method: "POST", path: "/auth.revoke" };
  const description = rules({
    request,
    accepted: "ok",
    error: "error",
    gone_errors: ["token_revoked"],
    tokens: ["access_token"],
  });
  const { start, received, state } = await startRevoking(description);
  const { rest } = await start();
  await createIntegration(rest);
  const expires_at = new Date(Date.now() - 60_000).toISOString();
  await connect(rest, "ada", { credentials: { expires_at } });
  state.answer = { status: 200, body: { ok: false, error: "token_revoked" } };
  await remove(rest, "ada");
  await expect
    .poll(() => revocations(rest, "?state=done"), soon)
    .toMatchObject([{ tokens: { refresh_token: "not_supported", access_token: "revoked" } }]);
  expect(received.map(({ authorization }) => authorization)).toEqual(["Bearer at-renewed"]);
});

it("revokes each further token by itself, also where others of the account keep the main one", async () => {
  const request = { method: "POST", path: "/auth.revoke" };
  const revocation = { request, tokens: ["access_token"], grant: "account", account_field: "metadata.team" };
  const further_tokens = { user: { token_answer: { access_token: "authed_user.access_token" } } };
  const { start, received } = await startRevoking({
    oauth2: () => ({ revocation_url: "", further_tokens }),
    description: () => ({ revocation }),
  });
  const { rest } = await start();
  await createIntegration(rest);
  const more = { metadata: { team: "one" } };
  await connect(rest, "bob", { more });
  await connect(rest, "ada", { more, credentials: { further_tokens: { user: { access_token: "at-of-user" } } } });
  await remove(rest, "ada");
  await expect.poll(() => revocations(rest, "?state=done&connection_id=ada"), soon).toHaveLength(2);
  const ended = await revocations(rest, "?connection_id=ada");
  expect(ended.find(({ further_token }) => further_token === "user")).toMatchObject({
    tokens: { access_token: "revoked" },
    causes: {},
  });
  expect(ended.find(({ further_token }) => further_token === null)).toMatchObject({
    causes: { access_token: "shared" },
  });
  expect(received.map(({ line, authorization }) => [line, authorization])).toEqual([
    ["POST /auth.revoke HTTP/1.1", "Bearer at-of-user"],
  ]);
});

it("recognizes a shared account by the field of the description, and keeps what it cannot tell", async () => {
  const description = () => ({ revocation: { grant: "account", account_field: "metadata.team" } });
  const { start, received } = await startRevoking({ description });
  const { rest } = await start();
  await createIntegration(rest);
  const ofTeam = (team: string) => ({ more: { metadata: { team } } });
  await connect(rest, "ada", ofTeam("one"));
  await connect(rest, "bob", ofTeam("one"));
  await connect(rest, "eve", ofTeam("two"));
  await connect(rest, "nobody");
  const end = async (id: string) => {
    await remove(rest, id);
    await expect.poll(() => revocations(rest, `?state=done&connection_id=${id}`), soon).toHaveLength(1);
    return (await revocations(rest, `?connection_id=${id}`))[0]?.["causes"];
  };
  expect(await end("ada")).toEqual({ refresh_token: "shared", access_token: "shared" });
  expect(await end("nobody")).toEqual({ refresh_token: "account_unknown", access_token: "account_unknown" });
  expect(received).toEqual([]);
  expect(await end("bob")).toEqual({});
  expect(tokensIn(received)).toEqual(["rt-bob", "at-bob"]);
});

it("keeps a grant that another connection of the account shares, and revokes it with the last", async () => {
  const { start, received } = await startRevoking({ description: () => ({ revocation: { grant: "account" } }) });
  const { rest } = await start();
  await createIntegration(rest);
  await createIntegration(rest, "second");
  const account = { connection_config: { emailAddressHash: "a".repeat(64) } };
  await connect(rest, "ada", { more: account });
  await connect(rest, "ada", { key: "second", more: account });
  await connect(rest, "other", { key: "second", more: { connection_config: { emailAddressHash: "b".repeat(64) } } });
  await remove(rest, "ada");
  await expect
    .poll(() => revocations(rest, "?state=done"), soon)
    .toMatchObject([{ tokens: { refresh_token: "kept" }, causes: { refresh_token: "shared" } }]);
  expect(received).toEqual([]);
  await remove(rest, "ada", "", "second");
  await expect
    .poll(() => revocations(rest, "?state=done&provider_config_key=second"), soon)
    .toMatchObject([{ tokens: bothRevoked }]);
  expect(tokensIn(received)).toEqual(["rt-ada", "at-ada"]);
});
