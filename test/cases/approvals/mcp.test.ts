import { expect, it } from "vitest";
import { refreshDashboard } from "../../../bin/dashboard.ts";
import { Scope } from "../../../src/gen/latchkey/v1/access_pb.ts";
import { EnvironmentService } from "../../../src/gen/latchkey/v1/environment_pb.ts";
import { PolicyEffect, PolicyService } from "../../../src/gen/latchkey/v1/policy_pb.ts";
import { holdPolicy, patient } from "../../support/approvals/holding.ts";
import { result } from "../../support/peers/mcp-peer.ts";
import { notion } from "../../support/peers/mcp-vendors.ts";
import { call, connect, create, type PeerAndSidecar, peerAndSidecar } from "../mcp/connected-peer.ts";
import { errorIn } from "../mcp-endpoint/served.ts";

const version = "2026-07-28";
const url = { elicitation: { url: {} } };

/** A call of the tool `pay`, as clients of 2026-07-28 send it. */
function pay(id: number, more: object = {}, capabilities: object = url) {
  const meta = {
    "io.modelcontextprotocol/protocolVersion": version,
    "io.modelcontextprotocol/clientCapabilities": capabilities,
    progressToken: `of-${id}`,
  };
  const params = { name: "pay", arguments: { amount: 5 }, _meta: meta, ...more };
  return { id, method: "tools/call", params };
}

const modern = { "mcp-protocol-version": version, "mcp-method": "tools/call", "mcp-name": "pay" };

async function start(config?: object) {
  const all = await peerAndSidecar(notion, { publicUrl: "", ...(config && { config: () => config }) });
  all.peer.answer = ({ id }, response) => result(response, id, { content: [{ type: "text", text: "paid" }] });
  await create(all);
  await connect(all);
  const { client, rest } = all.sidecar;
  await client(PolicyService).createPolicy({ policy: { ...holdPolicy, condition: 'mcp.tool == "pay"' } });
  const scopes = [Scope.APPROVALS_DECIDE];
  const { secret: key } = await client(EnvironmentService).createKey({ environment: "dev", scopes });
  const approve = (id: string, body: object = {}) => rest("POST", `/approvals/${id}/approve`, { key, body });
  const ask = (message: object, headers: Record<string, string> = modern) => call(all, message, { headers });
  await expect
    .poll(async () => (await ask(pay(1, { arguments: {} }))).body.result?.resultType, patient)
    .toBe("input_required");
  return { all, ask, approve, sent: () => paid(all) };
}

const paid = ({ peer }: PeerAndSidecar) =>
  peer
    .requestsTo("/mcp")
    .filter(({ headers, body }) => headers.authorization !== undefined && body.includes('"pay"'))
    .map(({ body }) => body);

it("asks a client of 2026-07-28 by input_required, and takes its repeated call", async () => {
  const { ask, approve, sent } = await start();
  const first = await ask(pay(2));
  expect(first.status).toBe(200);
  expect(first.headers.get("latchkey-error")).toBe("approval_required");
  const approval = first.headers.get("latchkey-approval") ?? "";
  const { requestState } = first.body.result;
  expect(first.body).toMatchObject({ jsonrpc: "2.0", id: 2, result: { resultType: "input_required" } });
  // Without a dashboard, there is no page to show.
  expect(first.body.result.inputRequests).toBeUndefined();
  await approve(approval);
  const changed = await ask(pay(3, { requestState, arguments: { amount: 6 } }));
  expect([changed.status, changed.headers.get("latchkey-error")]).toEqual([409, "approval_mismatch"]);
  expect(changed.body).toMatchObject({ id: 3, error: { data: { code: "approval_mismatch" } } });
  expect(sent()).toEqual([]);
  const done = await ask(pay(4, { requestState, inputResponses: { approval: { action: "accept" } } }));
  expect(done.body).toMatchObject({ id: 4, result: { content: [{ text: "paid" }] } });
  expect(sent()).toHaveLength(1);
  // What Latchkey has added does not reach the server.
  expect(sent()[0]).not.toMatch(/requestState|inputResponses/);
  expect(JSON.parse(sent()[0] ?? "{}")).toMatchObject({ id: 4, params: { name: "pay" } });
  const again = await ask(pay(5, { requestState }));
  expect(again.headers.get("latchkey-error")).toBe("approval_used");
});

it("keeps what the client answers to the server itself", async () => {
  const { ask, approve, sent } = await start();
  const own = { requestState: "of the server", inputResponses: { name: { action: "accept", content: { a: 1 } } } };
  const first = await ask(pay(2, own));
  const { requestState } = first.body.result;
  await approve(first.headers.get("latchkey-approval") ?? "");
  const forged = requestState.replace(/:[^:]*$/, `:${Buffer.from('["\\"other\\"",null]').toString("base64url")}`);
  expect((await ask(pay(3, { requestState: forged }))).headers.get("latchkey-error")).toBe("approval_mismatch");
  expect((await ask(pay(4, { requestState, inputResponses: {} }))).status).toBe(200);
  expect(sent()).toHaveLength(1);
  expect(JSON.parse(sent()[0] ?? "{}").params).toMatchObject(own);
});

it("answers older clients by an error, and refuses notifications", async () => {
  const { ask, approve, sent } = await start();
  const legacy = { id: 7, method: "tools/call", params: { name: "pay", arguments: {} } };
  const headers = { "mcp-protocol-version": "2025-11-25" };
  const first = await ask(legacy, headers);
  const id = first.headers.get("latchkey-approval") ?? "";
  expect(first.status).toBe(200);
  expect(first.body).toMatchObject({
    id: 7,
    error: { code: -32_000, data: { code: "approval_required", approval: id } },
  });
  const { body: shown } = await approve(id);
  expect(shown.data.tool).toBe("pay");
  expect((await ask({ ...legacy, id: 8 }, headers)).body).toMatchObject({ id: 8, result: {} });
  expect(sent()).toHaveLength(1);
  const { body } = await ask({ id: undefined, method: "tools/call", params: legacy.params }, headers);
  expect(body.error.data.code).toBe("denied_by_policy");
});

it("remembers an answer for the tool that was shown, and asks about the others", async () => {
  const { all, ask, approve, sent } = await start();
  await all.sidecar.client(PolicyService).updatePolicy({
    policy: { ...holdPolicy, condition: 'mcp.tool in ["pay", "refund"]' },
    updateMask: { paths: ["condition"] },
  });
  const headers = { "mcp-protocol-version": "2025-11-25" };
  const use = (name: string, amount: number) =>
    ask({ id: 1, method: "tools/call", params: { name, arguments: { amount } } }, headers);
  await expect.poll(async () => (await use("refund", 0)).body.error?.data.code, patient).toBe("approval_required");
  const first = await use("pay", 1);
  await approve(first.headers.get("latchkey-approval") ?? "", { remember: 600 });
  expect((await use("pay", 2)).body).toMatchObject({ result: {} });
  expect((await use("refund", 2)).body.error.data.code).toBe("approval_required");
  expect(sent()).toHaveLength(1);
});

it("shows the page of the approval to clients that open URLs", async () => {
  await refreshDashboard();
  const { all, ask } = await start({ dashboard: { enabled: true } });
  const first = await ask(pay(2));
  const id = first.headers.get("latchkey-approval") ?? "";
  const page = `${all.sidecar.control}/ui/approvals?env=dev&approval=${id}`;
  expect(first.body.result.inputRequests).toMatchObject({
    approval: { method: "elicitation/create", params: { mode: "url", url: page } },
  });
  expect((await fetch(page)).status).toBe(200);
  const blind = await ask(pay(3, {}, { elicitation: {} }));
  expect(blind.body.result.inputRequests).toBeUndefined();
  const headers = { "mcp-protocol-version": "2025-11-25" };
  const older = await ask({ id: 7, method: "tools/call", params: { name: "pay" } }, headers);
  const asked = older.headers.get("latchkey-approval");
  expect(older.body.error).toMatchObject({
    code: -32_042,
    data: { elicitations: [{ mode: "url", elicitationId: asked, url: expect.stringContaining(`approval=${asked}`) }] },
  });
});

it("asks once for a provider_request of our endpoint and for the message that it sends, and holds both to it", async () => {
  const { all, approve, sent } = await start();
  const policies = all.sidecar.client(PolicyService);
  const people = { ...holdPolicy, id: "people", condition: 'mcp.tool == "provider_request"' };
  await policies.createPolicy({ policy: people });
  const message = (amount: number) => ({ jsonrpc: "2.0", ...pay(1, { arguments: { amount } }) });
  const meta = {
    "io.modelcontextprotocol/protocolVersion": version,
    "io.modelcontextprotocol/clientCapabilities": {},
  };
  const request = async (body: { readonly method: string }, more: object = {}) => {
    const about =
      body.method === "tools/call" ? modern : { ...modern, "mcp-method": body.method, "mcp-name": undefined };
    const headers = { accept: "application/json, text/event-stream", ...about };
    const given = { integration: "tools", method: "POST", path: "/mcp", headers, body };
    const params = { name: "provider_request", arguments: given, _meta: meta, ...more };
    const own = { "mcp-protocol-version": version, "mcp-method": "tools/call", "mcp-name": "provider_request" };
    const { rest } = all.sidecar;
    return (await rest("POST", "/mcp", { body: { jsonrpc: "2.0", id: 1, method: "tools/call", params }, headers: own }))
      .body.result;
  };
  const other = { jsonrpc: "2.0", id: 2, method: "tools/list", params: { _meta: meta } };
  await expect.poll(() => request(other), patient).toMatchObject({ resultType: "input_required" });
  const { requestState } = await request(message(1));
  const { body } = await approve(requestState.split(":")[1]);
  expect(body.data.policies.map(({ id }: { id: string }) => id).sort()).toEqual(["changes", "people"]);
  const changed = await request(message(2), { requestState });
  expect(errorIn(changed).code).toBe("approval_mismatch");
  expect(sent()).toEqual([]);
  const done = await request(message(1), { requestState });
  expect(done.structuredContent).toMatchObject({ status: 200, body: { result: { content: [{ text: "paid" }] } } });
  expect(sent()).toHaveLength(1);
  expect(errorIn(await request(message(1), { requestState })).code).toBe("approval_used");

  // One of both is enough to hold it, and a policy about the tool still refuses what was approved.
  await policies.deletePolicy({ environment: "dev", id: "changes" });
  const held = await request(message(3));
  expect(held.resultType).toBe("input_required");
  await approve(held.requestState.split(":")[1]);
  const deny = { id: "no", environment: "dev", effect: PolicyEffect.DENY, condition: people.condition };
  await policies.createPolicy({ policy: deny });
  const again = async () => errorIn(await request(message(3), { requestState: held.requestState }));
  await expect.poll(async () => errorIn(await request(other))?.code, patient).toBe("denied_by_policy");
  expect((await again()).code).toBe("denied_by_policy");
  expect(sent()).toHaveLength(1);
});
