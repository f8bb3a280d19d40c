import { expect, it } from "vitest";
import { Scope } from "../../../src/gen/latchkey/v1/access_pb.ts";
import { EnvironmentService } from "../../../src/gen/latchkey/v1/environment_pb.ts";
import { PolicyEffect, PolicyService } from "../../../src/gen/latchkey/v1/policy_pb.ts";
import { patient } from "../../support/approvals/holding.ts";
import type { Connecting } from "../../support/sidecar/connecting.ts";
import { secretKey } from "../../support/sidecar/harness.ts";
import { callTool, errorIn, integration, legacyCall, modernCall, served, urlElicitation } from "./served.ts";

const key = "sandbox-api-key";
const pay = `
  import { createAction } from "latchkey/scripts";
  import * as z from "zod";
  export default createAction({
    description: "Pays an amount.",
    input: z.object({ amount: z.number() }),
    exec: async (nango: any, { amount }: any) => { await nango.log("paid"); return "paid " + amount; },
  });`;
const ping = `
  import { createAction } from "latchkey/scripts";
  export default createAction({ description: "Says pong.", exec: async () => "pong" });`;

/** A sidecar with tools of an integration whose account is connected, and a person who answers. */
async function ready(settings: object = {}) {
  const all = await served({
    settings,
    others: { [key]: { "actions/pay.ts": pay, "actions/ping.ts": ping, "actions/ask-word.ts": askWord } },
  });
  const { rest, client } = all.sidecar;
  const { status } = await rest("POST", "/connections", {
    body: {
      provider_config_key: key,
      connection_id: "ada",
      credentials: { type: "API_KEY", apiKey: "canary-key-0123456789" },
    },
  });
  expect(status).toBe(201);
  const { secret: decider } = await client(EnvironmentService).createKey({
    environment: "dev",
    scopes: [Scope.APPROVALS_DECIDE],
  });
  const answer = (id: string, how: "approve" | "deny") =>
    rest("POST", `/approvals/${id}/${how}`, { key: decider, body: {} });
  const policies = client(PolicyService);
  const put = async (id: string, effect: PolicyEffect, condition: string, more: object = {}) => {
    const hold = effect === PolicyEffect.HOLD ? { hold: { wait: { seconds: 0n, nanos: 0 } } } : {};
    await policies.createPolicy({ policy: { id, environment: "dev", effect, condition, ...hold, ...more } });
  };
  const remove = (id: string) => policies.deletePolicy({ environment: "dev", id });
  return { all, answer, put, remove, decider };
}

const askWord = `
  import { createAction } from "latchkey/scripts";
  export default createAction({
    description: "Asks for a word.",
    exec: async (nango: any) => {
      const schema = { type: "object", properties: { word: { type: "string" } } };
      const { word } = await nango.askClient({ word: { kind: "form", message: "Word?", schema } });
      return "said " + word.content.word;
    },
  });`;

const codeOf = async (answer: ReturnType<typeof callTool>) => errorIn((await answer).result)?.code;

const toolsOf = async (all: Connecting): Promise<string[]> =>
  (await modernCall(all, "tools/list")).body.result.tools.map(({ name }: { name: string }) => name);

it("judges every own tool by policies, hides what they refuse, and fails closed", async () => {
  const { all, put, remove } = await ready();
  const tools = await toolsOf(all);
  expect(tools).toContain("sandbox-api-key_pay");
  // About requests alone: the tools that send none are not judged by it.
  await put("no-writes", PolicyEffect.DENY, 'request.method != "GET"');
  await put("no-pay", PolicyEffect.DENY, 'mcp.tool == "sandbox-api-key_pay" && mcp.arguments.amount > 100');
  await put("no-ping", PolicyEffect.DENY, 'mcp.tool == "sandbox-api-key_ping"', { integration: key });
  await put("no-list", PolicyEffect.DENY, 'mcp.tool in ["list_connections", "connect_account", "sandbox-files_count"]');
  await put("no-delete", PolicyEffect.DENY, 'mcp.tool == "provider_request" && request.path.startsWith("/drive/v3/a")');
  await expect
    .poll(() => toolsOf(all), patient)
    .toEqual(tools.filter((name) => !/ping|list_connections|connect_account|count/.test(name)));
  expect(await codeOf(callTool(all, "sandbox-api-key_ping"))).toBe("denied_by_policy");
  expect(await codeOf(callTool(all, "call_tool", { name: "sandbox-api-key_ping" }))).toBe("denied_by_policy");
  expect(await codeOf(callTool(all, "list_connections"))).toBe("denied_by_policy");
  // A refused tool asks its user for nothing.
  const refused = await callTool(all, "sandbox-files_count", { text: "Q" }, { capabilities: urlElicitation });
  expect(errorIn(refused.result).code).toBe("denied_by_policy");
  expect(await codeOf(callTool(all, "connect_account", { integration }))).toBe("denied_by_policy");
  expect((await callTool(all, "sandbox-api-key_pay", { amount: 5 })).result.content[0].text).toBe("paid 5");
  expect(await codeOf(callTool(all, "sandbox-api-key_pay", { amount: 500 }))).toBe("denied_by_policy");
  // Without the argument, the condition cannot be evaluated.
  expect(await codeOf(callTool(all, "sandbox-api-key_pay", {}))).toBe("denied_by_policy");
  const request = (path: string, method = "GET") =>
    callTool(all, "provider_request", { integration: key, path, method });
  expect((await request("/drive/v3/files")).result.structuredContent).toMatchObject({ status: expect.any(Number) });
  expect(await codeOf(request("/drive/v3/about"))).toBe("denied_by_policy");
  expect(await codeOf(request("/drive/v3/files", "DELETE"))).toBe("denied_by_policy");
  const lines = all.sidecar.logged.filter((line) => line.includes("a tool was called")).map((line) => JSON.parse(line));
  expect(lines.find(({ tool }) => tool === "sandbox-api-key_ping")).toMatchObject({ outcome: "refused" });

  await put("seen", PolicyEffect.LOG, 'mcp.tool == "sandbox-api-key_pay"');
  const matches = () => all.sidecar.logged.filter((line) => line.includes('"policy":"seen"'));
  await expect
    .poll(async () => {
      await callTool(all, "sandbox-api-key_pay", { amount: 7 });
      return JSON.parse(matches()[0] ?? "{}");
    }, patient)
    .toMatchObject({ method: "tools/call", integration: key, connection: "ada" });

  // Conditions on the connection are known once it is; a condition on a request fails for tools that send none.
  await put("not-ada", PolicyEffect.DENY, 'mcp.tool != "" && connection.id == "ada"');
  await expect
    .poll(() => codeOf(callTool(all, "sandbox-api-key_pay", { amount: 5 })), patient)
    .toBe("denied_by_policy");
  expect(await toolsOf(all)).toContain("sandbox-api-key_pay");
  await remove("not-ada");
  await put("odd", PolicyEffect.DENY, 'request.path == "/x" && mcp.tool == "sandbox-api-key_pay"');
  await expect
    .poll(() => codeOf(callTool(all, "sandbox-api-key_pay", { amount: 6 })), patient)
    .toBe("denied_by_policy");
  await remove("odd");

  // A method, and a list of what is allowed.
  await put("no-lists", PolicyEffect.DENY, 'mcp.method == "tools/list"');
  await expect.poll(async () => (await modernCall(all, "tools/list")).status, patient).toBe(403);
  const listed = await legacyCall(all, "tools/list");
  expect(listed.body.error).toMatchObject({ code: -32_602, data: { code: "denied_by_policy" } });
  await remove("no-lists");
  await put("only-pay", PolicyEffect.ALLOW, 'mcp.method != "tools/call" || mcp.tool == "sandbox-api-key_pay"');
  await expect.poll(() => toolsOf(all).catch(() => []), patient).toEqual(["sandbox-api-key_pay"]);
  expect(await codeOf(callTool(all, "search_tools", { query: "pay" }))).toBe("denied_by_policy");
  const inner = { name: "sandbox-api-key_pay", arguments: { amount: 1 } };
  expect(await codeOf(callTool(all, "call_tool", inner))).toBe("denied_by_policy");
  expect(await codeOf(callTool(all, inner.name, inner.arguments))).toBe(undefined);
});

it("keeps the answers of a client while its call waits for an approval", async () => {
  const { all, put, answer, decider } = await ready();
  const call = async (more: object = {}) => {
    const params = { name: "sandbox-api-key_ask-word", arguments: {}, ...more };
    return (await modernCall(all, "tools/call", params, { capabilities: { elicitation: {} } })).body.result;
  };
  const asked = await call();
  expect(asked.inputRequests.word.params.message).toBe("Word?");
  await put("words", PolicyEffect.HOLD, 'mcp.tool == "sandbox-api-key_ask-word"');
  const answered = {
    requestState: asked.requestState,
    inputResponses: { word: { action: "accept", content: { word: "fig" } } },
  };
  // The policy counts within moments.
  await expect.poll(async () => (await call(answered)).resultType, patient).toBe("input_required");
  const held = await call(answered);
  expect(held.inputRequests).toBeUndefined();
  const { body } = await all.sidecar.rest("GET", "/approvals?state=waiting", { key: decider });
  expect(body.approvals).toHaveLength(1);
  await answer(body.approvals[0].id, "approve");
  expect((await call({ requestState: held.requestState })).content[0].text).toBe("said fig");
});

it("holds calls until a person has approved exactly this one", async () => {
  const { all, put, answer, decider } = await ready();
  const isPatient = 'mcp.tool == "sandbox-api-key_ping" || (mcp.tool == "provider_request" && request.method == "PUT")';
  await put("patient", PolicyEffect.HOLD, isPatient, { hold: { wait: { seconds: 20n, nanos: 0 } } });
  await put("people", PolicyEffect.HOLD, 'mcp.tool in ["sandbox-api-key_pay", "list_connections"]');
  const tool = "sandbox-api-key_pay";
  const call = (given: object, more: object = {}) =>
    modernCall(all, "tools/call", { name: tool, arguments: given, ...more }, { capabilities: urlElicitation });
  await expect.poll(async () => (await call({ amount: 0 })).body.result.resultType, patient).toBe("input_required");
  const first = (await call({ amount: 5 })).body.result;
  // Without a dashboard, there is no page to show.
  expect(first).toMatchObject({
    resultType: "input_required",
    requestState: expect.stringMatching(/^latchkey-approval:/),
  });
  expect(first.inputRequests).toBeUndefined();
  const id = first.requestState.split(":")[1];
  const shown = await all.sidecar.rest("GET", `/approvals/${id}`, { key: decider });
  expect(shown.body.data).toMatchObject({ method: "tools/call", url: `mcp:/tools/${tool}`, state: "waiting" });
  expect((await call({ amount: 5 }, { requestState: first.requestState })).body.result.requestState).toBe(
    first.requestState,
  );
  await answer(id, "approve");
  const changed = await call({ amount: 6 }, { requestState: first.requestState });
  expect(errorIn(changed.body.result).code).toBe("approval_mismatch");
  const done = await call({ amount: 5 }, { requestState: first.requestState });
  expect(done.body.result.content[0].text).toBe("paid 5");
  const used = await call({ amount: 5 }, { requestState: first.requestState });
  expect(errorIn(used.body.result).code).toBe("approval_used");

  // Older clients repeat the call; a denial is told to the model.
  const older = (amount: number) => legacyCall(all, "tools/call", { name: tool, arguments: { amount } });
  const asked = (await older(7)).body.result;
  expect(asked).toMatchObject({ isError: true, _meta: { "latchkey/error": { code: "approval_required" } } });
  expect(asked.content[0].text).toContain(errorIn(asked).approval);
  await answer(errorIn(asked).approval, "deny");
  expect(errorIn((await older(7)).body.result).code).toBe("approval_denied");
  // The approval is for the user that the call acts for.
  const forUser = (sub: string, iat: number, more: object = {}) => {
    const parts = [{ alg: "RS256" }, { iss: "https://id.example", sub, iat }].map((part) => JSON.stringify(part));
    const token = [...parts, "signature"].map((part) => Buffer.from(part).toString("base64url")).join(".");
    const params = { name: tool, arguments: { amount: 8 }, ...more };
    return modernCall(all, "tools/call", params, { headers: { "latchkey-subject-token": token } });
  };
  const { requestState } = (await forUser("ada", 1)).body.result;
  await answer(requestState.split(":")[1], "approve");
  const foreign = (await forUser("bob", 1, { requestState })).body.result;
  expect(errorIn(foreign).code).toBe("approval_mismatch");
  expect((await forUser("ada", 2, { requestState })).body.result.content[0].text).toBe("paid 8");
  // A client that has left learns of nothing, so its call is not made: the approval stays for the next attempt.
  const patientCalls = [
    { name: "sandbox-api-key_ping", path: "_ping" },
    {
      name: "provider_request",
      path: "/files",
      arguments: { integration: key, method: "PUT", path: "/drive/v3/files" },
    },
  ];
  for (const { path, ...params } of patientCalls) {
    const leaving = new AbortController();
    const unanswered = fetch(`${all.sidecar.data}/mcp`, {
      method: "POST",
      signal: leaving.signal,
      headers: { authorization: `Bearer ${secretKey}`, "content-type": "application/json" },
      body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/call", params }),
    }).catch(() => "left");
    const waiting = async () => {
      const { approvals } = (await all.sidecar.rest("GET", "/approvals?state=waiting", { key: decider })).body;
      return approvals.find(({ url }: { url: string }) => url.endsWith(path))?.id;
    };
    await expect.poll(waiting, patient).toBeDefined();
    const left = await waiting();
    const ended = () =>
      all.sidecar.logged.filter((line) => line.includes("a tool was called") && line.includes(params.name)).length;
    leaving.abort();
    expect(await unanswered).toBe("left");
    await expect.poll(ended, { interval: 20 }).toBe(1);
    await answer(left, "approve");
    const { result } = (await legacyCall(all, "tools/call", params)).body;
    expect(errorIn(result), result.content[0].text).toBeUndefined();
  }
  // Tools without a connection are held as well.
  expect((await callTool(all, "list_connections")).result.resultType).toBe("input_required");
  const lines = all.sidecar.logged.filter((line) => line.includes("a tool was called")).map((line) => JSON.parse(line));
  expect(lines.at(-1)).toMatchObject({ outcome: "held", code: "approval_required" });
});

it("asks for the approval of a provider request as the client takes it", async () => {
  const { all, put, answer, decider } = await ready();
  await put("people", PolicyEffect.HOLD, 'mcp.tool == "provider_request" && request.method == "POST"');
  const given = { integration: key, path: "/drive/v3/files", method: "POST", body: { name: "x" } };
  const call = (more: object = {}) =>
    modernCall(all, "tools/call", { name: "provider_request", arguments: given, ...more });
  await expect.poll(async () => (await call()).body.result.resultType, patient).toBe("input_required");
  const sent = () => JSON.stringify(all.sandbox.seen().requests);
  const before = sent();
  const { requestState } = (await call()).body.result;
  await answer(requestState.split(":")[1], "approve");
  const other = await modernCall(all, "tools/call", {
    name: "provider_request",
    arguments: { ...given, body: { name: "y" } },
    requestState,
  });
  expect(errorIn(other.body.result).code).toBe("approval_mismatch");
  expect(sent()).toBe(before);
  const done = await call({ requestState });
  expect(done.body.result.structuredContent).toMatchObject({ status: expect.any(Number) });
  expect(errorIn((await call({ requestState })).body.result).code).toBe("approval_used");
  const older = (await legacyCall(all, "tools/call", { name: "provider_request", arguments: given })).body.result;
  expect(older.content[0].text).toContain("Make the same call again once it is approved.");

  // Held requests that wait for a person leave room for others.
  await put("patient", PolicyEffect.HOLD, 'mcp.tool == "provider_request" && request.method == "PUT"', {
    hold: { wait: { seconds: 20n, nanos: 0 } },
  });
  const putting = (n: number) =>
    legacyCall(all, "tools/call", {
      name: "provider_request",
      arguments: { ...given, method: "PUT", body: { n } },
    });
  const held = Array.from({ length: 17 }, (_, n) => putting(n).catch(String));
  const waiting = async () =>
    (await all.sidecar.rest("GET", "/approvals?state=waiting", { key: decider })).body.approvals.filter(
      ({ method }: { method: string }) => method === "PUT",
    ).length;
  await expect.poll(waiting, patient).toBeGreaterThan(15);
  const listing = () => callTool(all, "provider_request", { integration: key, path: "/drive/v3/files" });
  expect((await listing()).result.structuredContent).toMatchObject({ status: expect.any(Number) });
  void Promise.all(held);
});
