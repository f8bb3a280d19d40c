import { expect, it } from "vitest";
import { createPolicyRule, type PolicyEffect, type PolicyScope } from "../../../../src/core/policies/policy-rule.ts";
import { createPolicySet, type Verdict } from "../../../../src/core/policies/policy-set.ts";
import { type JudgedRequest, LazyRequestFacts } from "../../../../src/core/policies/request-facts.ts";
import { judgedRequest } from "../../../support/policies/judged-request.ts";

type Written = readonly [effect: PolicyEffect, condition: string, scope?: PolicyScope];

const environment: PolicyScope = { kind: "environment", name: "" };

function verdictOf(written: readonly Written[], changes: Partial<JudgedRequest> = {}): Verdict {
  const rules = written.map(([effect, condition, scope = environment], i) =>
    createPolicyRule({ id: `p${i}`, description: "", scope, effect }, condition),
  );
  const request = judgedRequest(changes);
  const about = {
    integration: request.integration.key,
    key: request.caller.key,
    session: request.caller.session,
    host: request.host,
    provider: request.integration.provider,
    environment: "prod",
  };
  const set = createPolicySet(rules);
  const facts = new LazyRequestFacts(request);
  const verdict = set.judge(facts, about);
  expect(set.explain(facts, about).verdict.outcome).toBe(verdict.outcome);
  return verdict;
}

const fails = "request.headers.none == 'a'";

it.each<[string, readonly Written[], Verdict["outcome"]]>([
  ["no policies allow", [], "allowed"],
  ["a deny that matches refuses", [["deny", "request.method == 'POST'"]], "denied"],
  ["a deny that does not match allows", [["deny", "request.method == 'GET'"]], "allowed"],
  ["a deny that fails refuses", [["deny", fails]], "denied"],
  ["a deny that does not compile refuses", [["deny", "nothing"]], "denied"],
  [
    "deny wins over allow",
    [
      ["allow", "true"],
      ["deny", "true"],
    ],
    "denied",
  ],
  [
    "one allow of a scope is enough",
    [
      ["allow", "false"],
      ["allow", fails],
      ["allow", "true"],
    ],
    "allowed",
  ],
  [
    "no allow that matches refuses",
    [
      ["allow", "request.method == 'GET'"],
      ["allow", fails],
    ],
    "not allowed",
  ],
  ["an allow that fails does not match", [["allow", fails]], "not allowed"],
  [
    "each scope with allow policies needs a match",
    [
      ["allow", "true"],
      ["allow", "false", { kind: "integration", name: "github" }],
    ],
    "not allowed",
  ],
  ["policies of other integrations do not count", [["deny", "true", { kind: "integration", name: "b" }]], "allowed"],
  ["policies of other keys do not count", [["allow", "false", { kind: "key", name: "b" }]], "allowed"],
  ["policies of the key count", [["deny", "true", { kind: "key", name: "shop" }]], "denied"],
  ["policies of no session do not count", [["deny", "true", { kind: "access_session", name: "s" }]], "allowed"],
  [
    "log never refuses",
    [
      ["log", "true"],
      ["log", fails],
    ],
    "allowed",
  ],
  ["a method that is guarded away still needs an allow", [["allow", "request.method == 'GET' && true"]], "not allowed"],
  ["a host that is guarded away still needs an allow", [["allow", "request.host == 'b'"]], "not allowed"],
])("%s", (_name, written, outcome) => {
  expect(verdictOf(written).outcome).toBe(outcome);
});

it("counts policies of the access session", () => {
  const { caller } = judgedRequest();
  const written: Written[] = [["deny", "true", { kind: "access_session", name: "s" }]];
  expect(verdictOf(written, { caller: { ...caller, session: "s" } }).outcome).toBe("denied");
});

it("names what was logged, and what failed", () => {
  const { logged } = verdictOf([
    ["log", "true"],
    ["log", "false"],
    ["log", fails],
  ]);
  expect(logged.map(({ rule, result }) => [rule.id, result === true])).toEqual([
    ["p0", true],
    ["p2", false],
  ]);
});

it.each<[string, readonly Written[], Verdict["outcome"]]>([
  ["deny", [["deny", "request.body.a == 1"]], "unknown"],
  ["allow", [["allow", "request.body.a == 1"]], "unknown"],
  ["decided before", [["deny", "request.method == 'GET' && request.body.a == 1"]], "allowed"],
  ["decided by another operand", [["deny", "request.body.a == 1 || true"]], "denied"],
  [
    "allowed by another",
    [
      ["allow", "request.body.a == 1"],
      ["allow", "true"],
    ],
    "allowed",
  ],
  [
    "refused anyway",
    [
      ["deny", "request.body.a == 1"],
      ["deny", "true"],
    ],
    "denied",
  ],
])("asks for the body only where it decides: %s", (_name, written, outcome) => {
  expect(verdictOf(written, { body: { kind: "unread", size: 5 } }).outcome).toBe(outcome);
});

it("applies a policy about a provider once its integration is made again with that provider", () => {
  const rule = { id: "p", description: "", scope: environment, effect: "deny" } as const;
  const set = createPolicySet([createPolicyRule(rule, "integration.provider == 'later'")]);
  const judged = (provider: string) => {
    const integration = { key: "here", provider, environment: "prod" };
    const facts = new LazyRequestFacts(judgedRequest({ integration }));
    const about = { integration: "here", key: "k", session: "", host: "a.example", provider, environment: "prod" };
    return set.judge(facts, about).outcome;
  };
  expect(judged("before")).toBe("allowed");
  expect(judged("later")).toBe("denied");
});
