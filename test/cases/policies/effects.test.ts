import { readFileSync } from "node:fs";
import { Code } from "@connectrpc/connect";
import { beforeEach, describe, expect, it } from "vitest";
import { EnvironmentService } from "../../../src/gen/latchkey/v1/environment_pb.ts";
import { PolicyEffect, PolicyOutcome, PolicyService } from "../../../src/gen/latchkey/v1/policy_pb.ts";
import {
  type ProxiedSidecar,
  type RecordingProvider,
  startProvider,
  startProxied,
} from "../../support/peers/provider.ts";
import type { RestOptions } from "../../support/sidecar/harness.ts";

let provider: RecordingProvider;
let running: ProxiedSidecar;

beforeEach(async () => {
  provider = await startProvider();
  running = await startProxied(provider.port);
});

const policies = () => running.client(PolicyService);

async function create(effect: keyof typeof PolicyEffect, condition: string, more: Record<string, unknown> = {}) {
  const { policy } = await policies().createPolicy({
    policy: { environment: "dev", effect: PolicyEffect[effect], condition, ...more },
  });
  return policy?.id ?? "";
}

/** Returns the status and Latchkey's error code. */
async function ask(method: string, path: string, options: RestOptions = {}) {
  const { authorization = "", ...names } = running.proxyHeaders;
  const own = options.key === undefined ? { authorization } : {};
  const answer = await running.rest(method, `/proxy${path}`, {
    ...options,
    headers: { ...own, ...names, ...options.headers },
  });
  return [answer.status, answer.headers.get("latchkey-error")];
}

/** A loaded machine is slow. */
const patient = { timeout: 30_000 };
const denied = [403, "denied_by_policy"];
const sent = [200, null];
const settled = (expected: unknown, run: () => Promise<unknown>) => expect.poll(run, patient).toEqual(expected);

describe("effects", () => {
  it("refuses what a deny policy matches, and names the policy without its condition", async () => {
    await create("DENY", 'request.method == "DELETE"', { id: "no-deletes", description: "people delete" });
    await settled(denied, () => ask("DELETE", "/a"));
    expect(await ask("GET", "/a")).toEqual(sent);
    const { body } = await running.rest("DELETE", "/proxy/a", { headers: running.proxyHeaders });
    expect(body.error.message).toContain('"no-deletes" (people delete)');
    expect(JSON.stringify(body)).not.toContain("request.method");
    expect(provider.received()).not.toContain("DELETE");
    expect(await running.metric('latchkey_policy_decisions_total{decision="denied"}')).toBeGreaterThan(0);
    expect(await running.metric('latchkey_policy_decisions_total{decision="allowed"}')).toBeGreaterThan(0);
  });

  it("refuses forms, whose body may name another method, if a policy says so", async () => {
    const page = readFileSync("docs/policies.md", "utf8");
    const [, condition = ""] = /```cel\n([\s\S]*?)```/.exec(page) ?? [];
    await create("DENY", condition);
    const post = (type: string) => ask("POST", "/a", { body: "_method=delete", headers: { "content-type": type } });
    await settled(denied, () => post("application/x-www-form-urlencoded"));
    expect(await post("Multipart/Form-Data; boundary=x")).toEqual(denied);
    expect(await post("application/json")).toEqual(sent);
  });

  it("sends only what an allow policy matches", async () => {
    await create("ALLOW", 'request.path.startsWith("/public/")', { id: "public" });
    await settled(denied, () => ask("GET", "/private"));
    expect(await ask("GET", "/public/a")).toEqual(sent);
    const { body } = await running.rest("GET", "/proxy/private", { headers: running.proxyHeaders });
    expect(body.error.message).toContain('they are "public"');
    await create("ALLOW", 'request.path == "/private"');
    await settled(sent, () => ask("GET", "/private"));
  });

  it("logs what a log policy matches, at most once in a second", async () => {
    await create("LOG", 'request.path == "/seen"', { id: "seen" });
    const count = () => running.metric('latchkey_policy_decisions_total{decision="logged"}');
    await expect
      .poll(async () => [await ask("GET", "/seen"), ((await count()) ?? 0) > 0], patient)
      .toEqual([sent, true]);
    for (let i = 0; i < 20; i += 1) await ask("GET", "/seen");
    expect(await count()).toBeGreaterThanOrEqual(21);
    const lines = running.logged.filter((line) => line.includes("a request matched a policy"));
    expect(lines.length).toBeLessThan(10);
    expect(JSON.parse(lines[0] ?? "")).toMatchObject({ policy: "seen", key: "secret-key", connection: "ada" });
  });

  it("refuses when a condition fails", async () => {
    await create("DENY", 'request.headers["x-team"] == "red"', { id: "team" });
    await settled(denied, () => ask("GET", "/a"));
    expect(await ask("GET", "/a", { headers: { "x-team": "blue" } })).toEqual(sent);
    const { body } = await running.rest("GET", "/proxy/a", { headers: running.proxyHeaders });
    expect(body.error.message).toContain("could not be evaluated");
  });

  it("judges the path as the provider reads it", async () => {
    await create("DENY", 'request.path.startsWith("/admin")', { id: "admin" });
    await settled(denied, () => ask("GET", "/admin"));
    for (const path of ["/%61dmin/x", "//admin", "/a;/../admin", "/x%2F..%2Fadmin"]) {
      expect((await ask("GET", path))[0]).toBeGreaterThanOrEqual(400);
    }
    expect(provider.received()).not.toMatch(/dmin/);
  });
});

describe("scopes", () => {
  it("applies a policy to its integration, key or access session alone", async () => {
    const { secret } = await running.client(EnvironmentService).createKey({ environment: "dev", id: "agent" });
    const of = (case_: "integration" | "key" | "accessSession", value: string) => ({
      about: { kind: { case: case_, value } },
    });
    await create("DENY", "true", { id: "other", ...of("integration", "elsewhere") });
    await create("DENY", "true", { id: "session", ...of("accessSession", "none") });
    await create("DENY", 'request.path == "/here"', { id: "here", ...of("integration", "here") });
    await create("ALLOW", 'request.method == "GET"', { id: "agent-reads", ...of("key", "agent") });
    await settled(denied, () => ask("GET", "/here"));
    await settled(denied, () => ask("POST", "/a", { key: secret }));
    expect(await ask("POST", "/a")).toEqual(sent);
    expect(await ask("GET", "/a", { key: secret })).toEqual(sent);
  });
});

describe("bodies", () => {
  it("reads a JSON body where it decides, and sends it unchanged", async () => {
    await create("DENY", 'request.path == "/pay" && request.body.amount > 100', { id: "limit" });
    const pay = (body: unknown, headers = {}) => ask("POST", "/pay", { body, headers });
    await settled(denied, () => pay({ amount: 101 }));
    expect(await pay({ amount: 100, note: "é" })).toEqual(sent);
    expect(await pay({ note: "no amount" })).toEqual(denied);
    expect(await pay('{"amount": 1, "amount": 1000}')).toEqual(denied);
    expect(await pay("not json")).toEqual(denied);
    expect(await pay(`{"amount": 1, "pad": "${"x".repeat(70_000)}"}`)).toEqual(denied);
    expect(await ask("POST", "/other", { body: `"${"x".repeat(70_000)}"` })).toEqual(sent);
    expect(Buffer.from(provider.received(), "latin1").toString()).toContain('{"amount":100,"note":"é"}');
    expect(provider.received()).not.toContain('"amount":101');
    expect(provider.received()).not.toContain("1000");
  });

  it("reads a body of unknown length, and refuses one that is too long", async () => {
    await create("ALLOW", 'request.body.kind == "note"', { id: "notes" });
    const chunked = async (text: string) => {
      const body = new ReadableStream({
        start(controller) {
          for (let i = 0; i < text.length; i += 1_000) controller.enqueue(Buffer.from(text.slice(i, i + 1_000)));
          controller.close();
        },
      });
      const headers = { authorization: running.proxyHeaders["authorization"] ?? "", ...running.proxyHeaders };
      const answer = await fetch(`${running.data}/proxy/a`, {
        method: "POST",
        headers,
        body,
        duplex: "half",
      } as RequestInit);
      await answer.arrayBuffer();
      return [answer.status, answer.headers.get("latchkey-error")];
    };
    await settled(denied, () => chunked('{"kind": "other"}'));
    expect(await chunked('{"kind": "note"}')).toEqual(sent);
    expect(await chunked(`{"kind": "note", "pad": "${"x".repeat(70_000)}"}`)).toEqual(denied);
  });

  it("leaves the budget of a session as it is for a request that a body refuses", async () => {
    await create("DENY", 'request.path == "/pay" && request.body.amount > 100', { id: "limit" });
    await settled(denied, () => ask("POST", "/pay", { body: { amount: 101 } }));
    const limits = { connections: [{ integration: "here", id: "ada" }] };
    const made = await running.rest("POST", "/access-sessions", { body: { limits, budget: 2 } });
    const pay = (amount: number) => ask("POST", "/pay", { key: made.body.data.token, body: { amount } });
    for (let i = 0; i < 4; i += 1) expect(await pay(101)).toEqual(denied);
    expect([await pay(1), await pay(2)]).toEqual([sent, sent]);
    await settled([403, "not_in_session"], () => pay(3));
  });

  it("logs by a body without refusing", async () => {
    await create("LOG", "request.body.secret == true", { id: "secrets" });
    const count = () => running.metric('latchkey_policy_decisions_total{decision="logged"}');
    await expect
      .poll(async () => {
        const answer = await ask("POST", "/a", { body: { secret: true } });
        return [answer, ((await count()) ?? 0) > 0];
      })
      .toEqual([sent, true]);
    expect(await ask("POST", "/a", { body: "not json" })).toEqual(sent);
  });
});

describe("management", () => {
  it("refuses a policy that is not valid, with the place in its condition", async () => {
    const wrong = create("DENY", 'request.method == "GET" &&\n  request.pth == "/a"');
    await expect(wrong).rejects.toThrow("condition: 2:3: `request` has no field `pth`");
    await expect(create("DENY", "request.path")).rejects.toMatchObject({ code: Code.InvalidArgument });
    await expect(policies().createPolicy({ policy: { environment: "dev", condition: "true" } })).rejects.toThrow(
      "effect: must be allow, deny, hold or log",
    );
    const { mistakes, variables } = await policies().checkPolicy({
      policy: { condition: "request.size > 10 && request.path == 1", effect: PolicyEffect.DENY },
    });
    expect(mistakes).toMatchObject([{ field: "condition", line: 1, column: 35 }]);
    expect(variables).toEqual([]);
    const good = await policies().checkPolicy({ policy: { condition: "request.size > 10", effect: PolicyEffect.LOG } });
    expect([good.mistakes, good.variables]).toEqual([[], ["request.size"]]);
  });

  it("lists, changes and deletes policies by revision, and leaves audit events", async () => {
    const id = await create("DENY", "true", { id: "all" });
    await settled(denied, () => ask("GET", "/a"));
    const { policy } = await policies().getPolicy({ environment: "dev", id });
    const stale = policies().updatePolicy({
      policy: { environment: "dev", id, disabled: true },
      updateMask: { paths: ["disabled"] },
      expectedRevision: (policy?.revision ?? 0n) - 1n,
    });
    await expect(stale).rejects.toMatchObject({ code: Code.Aborted });
    await policies().updatePolicy({
      policy: { environment: "dev", id, disabled: true },
      updateMask: { paths: ["disabled"] },
      expectedRevision: policy?.revision ?? 0n,
    });
    await settled(sent, () => ask("GET", "/a"));
    await create("ALLOW", "true", { id: "another" });
    const { policies: listed } = await policies().listPolicies({ environment: "dev" });
    expect(listed.map((one) => [one.id, one.disabled, one.condition])).toEqual([
      ["all", true, "true"],
      ["another", false, "true"],
    ]);
    await policies().deletePolicy({ environment: "dev", id });
    await expect(policies().getPolicy({ environment: "dev", id })).rejects.toMatchObject({ code: Code.NotFound });
    await expect(create("ALLOW", "true", { id: "another" })).rejects.toMatchObject({ code: Code.AlreadyExists });
    await expect(
      running.client(PolicyService, running.proxyHeaders["authorization"]?.slice(7)).deletePolicy({ id: "another" }),
    ).rejects.toMatchObject({
      code: Code.PermissionDenied,
    });
  });

  it("explains a request as it would be judged", async () => {
    await create("DENY", 'request.method == "DELETE"', { id: "no-deletes" });
    await create("ALLOW", 'request.headers["x-team"] == "red"', { id: "red" });
    const explain = (method: string, headers: Record<string, string> = {}) =>
      policies().explainPolicies({
        connection: { environment: "dev", integration: "here", id: "ada" },
        method,
        path: "/a?b=c",
        headers,
        key: "secret-key",
      });
    const refused = await explain("DELETE", { "x-team": "red" });
    expect(refused.outcome).toBe(PolicyOutcome.DENIED);
    expect(refused.policies.map(({ policy, matched, error }) => [policy?.id, matched, error])).toEqual([
      ["no-deletes", true, ""],
      ["red", true, ""],
    ]);
    const missing = await explain("GET");
    expect(missing.reason).toContain("allows this request");
    expect(missing.policies[1]?.error).toBe('there is no header "x-team"');
    const good = await explain("GET", { "x-team": "red" });
    expect([good.outcome, good.reason, good.path]).toEqual([PolicyOutcome.ALLOWED, 'allowed by "red"', "/a"]);
    await settled(denied, () => ask("GET", "/a"));
    expect(await ask("GET", "/a", { headers: { "x-team": "red" } })).toEqual(sent);
    expect(await ask("DELETE", "/a", { headers: { "x-team": "red" } })).toEqual(denied);
  });
});
