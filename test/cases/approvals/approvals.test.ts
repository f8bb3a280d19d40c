import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { Code, ConnectError } from "@connectrpc/connect";
import { beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { runCli } from "../../../src/cli/program.ts";
import { Scope } from "../../../src/gen/latchkey/v1/access_pb.ts";
import { ApprovalService, ApprovalState } from "../../../src/gen/latchkey/v1/approval_pb.ts";
import { EndUserService } from "../../../src/gen/latchkey/v1/end_user_pb.ts";
import { EnvironmentService } from "../../../src/gen/latchkey/v1/environment_pb.ts";
import { LogService } from "../../../src/gen/latchkey/v1/log_pb.ts";
import { PolicyEffect, PolicyOutcome, PolicyService } from "../../../src/gen/latchkey/v1/policy_pb.ts";
import { type HoldingSidecar, patient, startHolding } from "../../support/approvals/holding.ts";
import { apiKey } from "../../support/peers/provider.ts";
import { secretKey } from "../../support/sidecar/harness.ts";
import { memoryTerminal } from "../cli/memory-terminal.ts";

let running: HoldingSidecar;
beforeEach(async () => {
  running = await startHolding();
});

const pay = { body: { amount: 5 }, headers: { "x-team": "red" } };
const code = (answer: { readonly headers: Headers }) => answer.headers.get("latchkey-error");
const idOf = (answer: { readonly headers: Headers }) => answer.headers.get("latchkey-approval") ?? "";

describe("a held request", () => {
  it("is sent once, after a person has approved exactly what was shown", async () => {
    const first = await running.ask("POST", "/pay?to=bob", pay);
    expect([first.status, code(first)]).toEqual([202, "approval_required"]);
    const id = idOf(first);
    expect(first.headers.get("location")).toBe(`/approvals/${id}`);
    expect(Number(first.headers.get("retry-after"))).toBeGreaterThan(0);
    expect(first.body.error.payload).toMatchObject({ approval: id, state: "waiting" });
    expect(first.body.error.message).toContain('"changes"');

    const shown = await running.rest("GET", `/approvals/${id}`, { key: running.decider });
    expect(shown.body.data).toMatchObject({
      state: "waiting",
      method: "POST",
      integration: "here",
      connection_id: "ada",
      requester: { key: "secret-key", access_session: null },
      policies: [{ id: "changes", description: "people look at changes" }],
      content: { body: '{"amount":5}', body_size: 12, body_is_cut: false },
    });
    expect(shown.body.data.url).toMatch(/\/pay\?to=bob$/);
    expect(shown.body.data.content.headers).toContainEqual({ name: "x-team", value: "red" });
    expect(JSON.stringify(shown.body)).not.toContain(apiKey);
    expect(JSON.stringify(shown.body)).not.toContain(secretKey);

    // The same request again is the same approval, also without its name.
    expect(idOf(await running.ask("POST", "/pay?to=bob", pay))).toBe(id);
    expect(running.sent()).toEqual([]);
    const { digest } = shown.body.data;
    expect((await running.answer(id, "approve", { digest, reason: "fine" })).body.data).toMatchObject({
      state: "approved",
      decided_by: "decider",
      reason: "fine",
    });
    const sent = await running.ask("POST", "/pay?to=bob", {
      ...pay,
      headers: { ...pay.headers, "latchkey-approval": id, prefer: "respond-async, wait=3" },
    });
    expect([sent.status, sent.body]).toEqual([200, { line: "POST /pay?to=bob HTTP/1.1", body: '{"amount":5}' }]);
    expect(running.provider.received()).toContain(apiKey);
    expect(running.provider.received()).not.toMatch(/prefer|latchkey-approval/i);
    const again = await running.ask("POST", "/pay?to=bob", {
      ...pay,
      headers: { ...pay.headers, "latchkey-approval": id },
    });
    expect([again.status, code(again)]).toEqual([409, "approval_used"]);
    // Without the name, it is a new request, which another person has to look at.
    const next = await running.ask("POST", "/pay?to=bob", pay);
    expect([next.status, idOf(next) === id]).toEqual([202, false]);
    expect(running.sent()).toHaveLength(1);
    const results = await Promise.all(
      ["asked", "joined", "approved", "used"].map((one) => running.metric(`latchkey_approvals_total{result="${one}"}`)),
    );
    expect(results).toEqual([3, 1, 1, 1]);
    expect(await running.metric("latchkey_approvals_waiting")).toBe(1);
  });

  it("is refused if one byte differs from what was approved", async () => {
    const id = idOf(await running.ask("POST", "/pay", pay));
    expect((await running.answer(id, "approve")).status).toBe(200);
    const named = { "latchkey-approval": id };
    const others = [
      running.ask("POST", "/pay", { ...pay, body: '{"amount":6}', headers: { ...pay.headers, ...named } }),
      running.ask("POST", "/pay", { ...pay, body: '{"amount":5} ', headers: { ...pay.headers, ...named } }),
      running.ask("POST", "/paz", { ...pay, headers: { ...pay.headers, ...named } }),
      running.ask("POST", "/pay?", { ...pay, headers: { ...pay.headers, ...named } }),
      running.ask("PUT", "/pay", { ...pay, headers: { ...pay.headers, ...named } }),
      running.ask("POST", "/pay", { ...pay, headers: { "x-team": "rad", ...named } }),
      running.ask("POST", "/pay", { ...pay, headers: { ...pay.headers, "x-more": "1", ...named } }),
    ];
    for (const answer of await Promise.all(others)) {
      expect([answer.status, code(answer)]).toEqual([409, "approval_mismatch"]);
    }
    expect(running.sent()).toEqual([]);
    const sent = await running.ask("POST", "/pay", { ...pay, headers: { ...pay.headers, ...named } });
    expect(sent.status).toBe(200);
  });

  it("is sent once, however many callers repeat it at the same time", async () => {
    const id = idOf(await running.ask("POST", "/pay", pay));
    await running.answer(id, "approve");
    const headers = { ...pay.headers, "latchkey-approval": id };
    const all = await Promise.all(Array.from({ length: 12 }, () => running.ask("POST", "/pay", { ...pay, headers })));
    expect(all.filter(({ status }) => status === 200)).toHaveLength(1);
    expect(all.filter((one) => code(one) === "approval_used")).toHaveLength(11);
    expect(running.sent()).toHaveLength(1);
  });

  it("waits on its connection as long as its caller wants", async () => {
    const waits = () => running.metric("latchkey_approval_waits");
    const asked = running.ask("POST", "/pay", { ...pay, headers: { ...pay.headers, prefer: "wait=300" } });
    await expect.poll(waits, patient).toBe(1);
    const [id = ""] = await running.waiting();
    await running.answer(id, "approve");
    expect((await asked).status).toBe(200);
    const denied = running.ask("POST", "/no", { ...pay, headers: { prefer: "wait=300" } });
    await expect.poll(waits, patient).toBe(1);
    await running.answer((await running.waiting())[0] ?? "", "deny", { reason: "ask Ada first" });
    const refused = await denied;
    expect([refused.status, code(refused)]).toEqual([403, "approval_denied"]);
    expect(refused.body.error.message).toContain("ask Ada first");
    // A denial holds for a while, so that a program in a loop does not ask people in a loop.
    expect((await running.ask("POST", "/no", pay)).status).toBe(202);
    expect(code(await running.ask("POST", "/no", { body: { amount: 5 } }))).toBe("approval_denied");
    expect(running.sent()).toHaveLength(1);
    const late = await running.ask("POST", "/late", { ...pay, headers: { prefer: "wait=1" } });
    expect([late.status, code(late)]).toEqual([202, "approval_required"]);
    expect(await waits()).toBe(0);
  });

  it("is judged again after its wait", async () => {
    const { secret } = await running.client(EnvironmentService).createKey({ environment: "dev", id: "brief" });
    const wait = { ...pay, key: secret, headers: { ...pay.headers, prefer: "wait=300" } };
    const asked = running.ask("POST", "/pay", wait);
    await expect.poll(() => running.metric("latchkey_approval_waits"), patient).toBe(1);
    const [id = ""] = await running.waiting();
    await running.client(EnvironmentService).revokeKey({ id: "brief" });
    await expect.poll(async () => (await running.ask("GET", "/x", { key: secret })).status, patient).toBe(401);
    const before = running.sent().length;
    await running.answer(id, "approve");
    expect((await asked).status).toBe(401);
    expect(running.sent()).toHaveLength(before);
  });
});

/** Follows the approvals that a key sees; resolves once the stream has begun. */
async function following(key: string, signal: AbortSignal) {
  const steps = running.client(ApprovalService, key).watchApprovals({}, { signal })[Symbol.asyncIterator]();
  expect((await steps.next()).value?.event.case).toBe("marker");
  return {
    async next(count: number) {
      const found: unknown[] = [];
      while (found.length < count) {
        const { value: step } = await steps.next();
        if (step?.event.case !== "approval") continue;
        const { id, url, state, content } = step.event.value;
        expect(content).toBeUndefined();
        found.push([id, new URL(url).pathname, state, step.waiting]);
      }
      return found;
    },
  };
}

describe("who answers", () => {
  it("is never the caller of the request", async () => {
    const client = running.client(EnvironmentService);
    const scopes = [Scope.PROXY, Scope.CONNECTIONS_WRITE, Scope.APPROVALS_DECIDE];
    const { secret } = await client.createKey({ environment: "dev", id: "both", scopes });
    const own = await running.ask("POST", "/pay", { ...pay, key: secret });
    const refused = await running.rest("POST", `/approvals/${idOf(own)}/approve`, { key: secret, body: {} });
    expect([refused.status, code(refused)]).toEqual([403, "self_approval"]);
    // A session of the key counts as the key.
    const limits = { connections: [{ integration: "here", id: "ada" }] };
    const { body } = await running.rest("POST", "/access-sessions", { key: secret, body: { limits } });
    const ofSession = await running.ask("POST", "/pay", { ...pay, key: body.data.token });
    expect(idOf(ofSession)).not.toBe(idOf(own));
    for (const how of ["approve", "deny"]) {
      const answer = await running.rest("POST", `/approvals/${idOf(ofSession)}/${how}`, { key: secret, body: {} });
      expect(code(answer)).toBe("self_approval");
    }
    const approvals = running.client(ApprovalService, secret);
    const error = await approvals.grantApproval({ id: idOf(own) }).catch((err: unknown) => ConnectError.from(err));
    expect(error).toMatchObject({ code: Code.PermissionDenied });
    // Neither has the other's approval.
    const stolen = await running.ask("POST", "/pay", {
      ...pay,
      key: secret,
      headers: { ...pay.headers, "latchkey-approval": idOf(ofSession) },
    });
    expect([stolen.status, code(stolen)]).toEqual([404, "not_found"]);
    expect(running.sent()).toEqual([]);
  });

  it("has the scope approvals:decide, which keys have only if it was asked for", async () => {
    const id = idOf(await running.ask("POST", "/pay", pay));
    const { secret } = await running.client(EnvironmentService).createKey({ environment: "dev", id: "usual" });
    for (const key of [secretKey, secret]) {
      const refused = await running.rest("POST", `/approvals/${id}/approve`, { key, body: {} });
      expect([refused.status, code(refused)]).toEqual([403, "missing_scope"]);
    }
    // A caller sees its own requests, and no others.
    expect((await running.rest("GET", `/approvals/${id}`)).status).toBe(200);
    expect((await running.rest("GET", `/approvals/${id}`, { key: secret })).status).toBe(404);
    expect((await running.rest("GET", "/approvals", { key: secret })).body.approvals).toEqual([]);
    const mine = (await running.rest("GET", "/approvals?state=waiting")).body.approvals;
    expect(mine).toMatchObject([{ id }]);
    expect(mine[0]).not.toHaveProperty("content");
  });

  it("sees approvals as they change, and other keys those of their own requests", async () => {
    const { secret } = await running.client(EnvironmentService).createKey({ environment: "dev", id: "usual" });
    const over = new AbortController();
    onTestFinished(() => over.abort());
    const [decider, other] = await Promise.all([running.decider, secret].map((key) => following(key, over.signal)));
    const env = { LATCHKEY_CONTROL: running.control, LATCHKEY_ADMIN_KEY: running.decider, NO_COLOR: "1" };
    const terminal = memoryTerminal({ env, signal: over.signal });
    const ended = runCli(["approvals", "list", "--follow", "--state", "approved"], terminal);
    await expect.poll(() => running.metric("latchkey_watchers_open"), patient).toBe(3);
    const id = idOf(await running.ask("POST", "/pay", pay));
    await running.answer(id, "approve");
    const own = idOf(await running.ask("POST", "/own", { ...pay, key: secret }));
    expect(await decider?.next(3)).toEqual([
      [id, "/pay", ApprovalState.WAITING, 1],
      [id, "/pay", ApprovalState.APPROVED, 0],
      [own, "/own", ApprovalState.WAITING, 1],
    ]);
    expect(await other?.next(1)).toEqual([[own, "/own", ApprovalState.WAITING, 0]]);
    await expect.poll(() => terminal.out(), patient).toMatch(new RegExp(`${id} .*approved`));
    expect(terminal.out()).not.toContain(own);
    over.abort();
    expect(await ended).toBe(0);
  });

  it("may let the caller do the same for a while, and end that", async () => {
    const id = idOf(await running.ask("POST", "/pay", pay));
    expect(code(await running.answer(id, "approve", { remember: 601 }))).toBe("invalid_body");
    const approved = await running.answer(id, "approve", { remember: 600 });
    expect(approved.body.data.remembered_until).not.toBeNull();
    for (const amount of [1, 2, 3]) {
      expect((await running.ask("POST", `/pay?n=${amount}`, { body: { amount } })).status).toBe(200);
    }
    const other = await running.client(EnvironmentService).createKey({ environment: "dev", id: "other" });
    for (const [method, path, key] of [
      ["PUT", "/pay", undefined],
      ["POST", "/pay/x", undefined],
      ["POST", "/pay", other.secret],
    ] as const) {
      expect((await running.ask(method, path, { ...pay, ...(key && { key }) })).status).toBe(202);
    }
    expect((await running.answer(id, "deny")).status).toBe(200);
    expect((await running.ask("POST", "/pay?n=4", pay)).status).toBe(202);
    expect(await running.metric('latchkey_approvals_total{result="remembered"}')).toBe(3);
  });
});

describe("the end of an approval", () => {
  const isStored = async (text: string) => {
    const files = await readdir(running.folder, { recursive: true, withFileTypes: true });
    const all = files.filter((one) => one.isFile()).map((one) => readFile(join(one.parentPath, one.name), "latin1"));
    return (await Promise.all(all)).some((content) => content.includes(text));
  };

  it("comes with the deletion of its connection, whose waiting callers are told", async () => {
    const id = idOf(await running.ask("POST", "/pay", pay));
    await running.answer(id, "approve");
    const waiting = running.ask("POST", "/pay?to=eve", { ...pay, headers: { ...pay.headers, prefer: "wait=60" } });
    await expect.poll(() => running.metric("latchkey_approvals_waiting"), patient).toBe(1);
    await running.rest("DELETE", "/connections/ada?provider_config_key=here");
    const told = await waiting;
    expect([told.status, code(told)]).toEqual([404, "unknown_connection"]);
    expect((await running.rest("GET", "/approvals", { key: running.decider })).body.approvals).not.toContainEqual(
      expect.objectContaining({ connection_id: "ada", state: expect.stringMatching(/waiting|approved/) }),
    );
    const gone = await running.rest("GET", `/approvals/${id}`, { key: running.decider });
    expect(gone.status).toBe(404);
    expect(await isStored(id)).toBe(true); // In the audit trail, which holds no content.

    // An account that is connected under the same ID later gets nothing of it.
    const credentials = { type: "API_KEY", apiKey: "another" };
    const body = { provider_config_key: "here", connection_id: "ada", credentials };
    expect((await running.rest("POST", "/connections", { body })).status).toBe(201);
    const next = await running.ask("POST", "/pay", pay);
    expect([next.status, idOf(next) === id]).toEqual([202, false]);
    expect(running.sent()).toEqual([]);
  });

  it("comes when its connections are emptied, and when their end user is deleted", async () => {
    const of = (name: string) => ({ "connection-id": name });
    for (const name of ["emptied", "user"]) {
      const credentials = { type: "API_KEY", apiKey: name };
      const body = { provider_config_key: "here", connection_id: name, credentials, end_user: { id: `of-${name}` } };
      expect((await running.rest("POST", "/connections", { body })).status).toBe(201);
    }
    const id = idOf(await running.ask("POST", "/pay", { ...pay, headers: of("user") }));
    await running.client(EndUserService).deleteEndUser({ environment: "dev", endUserId: "of-user" });
    const status = async (one: string) =>
      (await running.rest("GET", `/approvals/${one}`, { key: running.decider })).status;
    await expect.poll(() => status(id), patient).toBe(404);
    const other = idOf(await running.ask("POST", "/pay", { ...pay, headers: of("emptied") }));
    expect(await status(other)).toBe(200);
    await running.client(EnvironmentService).emptyEnvironment({ name: "dev" });
    await expect.poll(() => status(other), patient).toBe(404);
  });

  it("comes with that of its requester: a later key of the same ID gets nothing of it", async () => {
    const keys = running.client(EnvironmentService);
    const { secret } = await keys.createKey({ environment: "dev", id: "agent" });
    const as = (key: string) => ({ key, headers: { authorization: `Bearer ${key}`, ...pay.headers }, body: pay.body });
    const id = idOf(await running.ask("POST", "/pay", as(secret)));
    await running.answer(id, "approve", { remember: 300 });
    await keys.revokeKey({ id: "agent" });
    const shown = async (one: string) =>
      (await running.rest("GET", `/approvals/${one}`, { key: running.decider })).body.data;
    await expect
      .poll(() => shown(id), patient)
      .toMatchObject({ state: "expired", reason: "the key of its requester was revoked" });
    const { secret: later } = await keys.createKey({ environment: "dev", id: "agent" });
    const next = await running.ask("POST", "/pay", as(later));
    expect([next.status, idOf(next) === id]).toEqual([202, false]);
    expect(running.sent()).toEqual([]);

    const limits = { connections: [{ integration: "here", id: "ada" }] };
    const { body } = await running.rest("POST", "/access-sessions", { body: { limits } });
    const ofSession = idOf(await running.ask("POST", "/pay?by=session", as(body.data.token)));
    await running.rest("DELETE", `/access-sessions/${body.data.id}`);
    await expect
      .poll(() => shown(ofSession), patient)
      .toMatchObject({ state: "expired", reason: "the access session of its requester has ended" });
  });
});

it("leaves traces of each step, and explains what it would do", async () => {
  const id = idOf(await running.ask("POST", "/pay", pay));
  await running.answer(id, "approve");
  await running.ask("POST", "/pay", pay);
  const { events } = await running.client(LogService).listAuditEvents({ environment: "dev", target: id });
  expect(events.map(({ action, actor }) => [action, actor]).reverse()).toEqual([
    ["approval.request", "secret-key"],
    ["approval.approve", "decider"],
    ["approval.use", "secret-key"],
  ]);
  const held = running.logged.map((line) => JSON.parse(line)).find(({ approval }) => approval === id);
  expect(held).toMatchObject({ msg: "a request waits for an approval", policy: "changes", key: "secret-key" });
  const approvals = running.client(ApprovalService, running.decider);
  const { approvals: used } = await approvals.listApprovals({ state: ApprovalState.USED });
  expect(used.map((one) => one.id)).toEqual([id]);
  const policies = running.client(PolicyService);
  const connection = { environment: "dev", integration: "here", id: "ada" };
  const explained = await policies.explainPolicies({ connection, method: "POST", path: "/pay" });
  expect(explained).toMatchObject({ outcome: PolicyOutcome.HELD });
  expect(explained.reason).toContain('"changes"');
  const mistaken = { id: "x", environment: "dev", effect: PolicyEffect.DENY, condition: "true", hold: {} };
  const error = await policies.createPolicy({ policy: mistaken }).catch((err: unknown) => ConnectError.from(err));
  expect(error).toMatchObject({ code: Code.InvalidArgument });
  await expect.poll(() => running.metric('latchkey_policy_decisions_total{decision="held"}')).toBeGreaterThan(0);
});

it("takes no answer in time for a no, and forgets old requests", async () => {
  let later = 0;
  const timed = await startHolding({ now: () => Date.now() + later });
  const waiting = idOf(await timed.ask("POST", "/pay", pay));
  const approved = idOf(await timed.ask("POST", "/more", pay));
  expect((await timed.answer(approved, "approve")).status).toBe(200);
  later = 3_600_000;
  const late = await timed.answer(waiting, "approve");
  expect([late.status, code(late)]).toEqual([409, "conflict"]);
  for (const [path, id] of [
    ["/pay", waiting],
    ["/more", approved],
  ] as const) {
    const refused = await timed.ask("POST", path, { ...pay, headers: { ...pay.headers, "latchkey-approval": id } });
    expect([refused.status, code(refused)]).toEqual([403, "approval_denied"]);
    expect((await timed.rest("GET", `/approvals/${id}`)).body.data.state).toBe("expired");
  }
  await timed.sidecar.broker.keepHouse();
  expect(await timed.metric('latchkey_approvals_total{result="expired"}')).toBe(2);
  expect(await timed.metric("latchkey_approvals_waiting")).toBe(0);
  // Without the name, it is a new question.
  const next = await timed.ask("POST", "/pay", pay);
  expect([next.status, idOf(next) === waiting]).toEqual([202, false]);
  expect(timed.sent()).toEqual([]);
  later = 15 * 86_400_000;
  await timed.sidecar.broker.keepHouse();
  await timed.sidecar.broker.keepHouse();
  expect((await timed.rest("GET", "/approvals")).body.approvals).toEqual([]);
});
