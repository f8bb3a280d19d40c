import { expect, it } from "vitest";
import { createPolicyRule, type PolicyEffect, type PolicyRule } from "../../../../src/core/policies/policy-rule.ts";
import { createPolicySet, type Verdict } from "../../../../src/core/policies/policy-set.ts";
import { type JudgedRequest, LazyRequestFacts } from "../../../../src/core/policies/request-facts.ts";
import { EvaluationFailure } from "../../../../src/core/policies/values.ts";
import { judgedRequest } from "../../../support/policies/judged-request.ts";
import { createRandom, type Random } from "../../../support/policies/random.ts";

const ids = ["ada", "bob", "eve", ""];
const paths = ["/a", "/a/b", "/admin/x", "/x/admin", "/%61dmin", "//admin", "/a;b", "/", "/é"];
const texts = ["/a", "/admin", "admin", "x", "/", "", "b"];

/** Conditions of which a part can be decided without an evaluation, or seems so. */
function randomCondition(random: Random): string {
  const text = () => JSON.stringify(random.of(texts));
  const id = () => JSON.stringify(random.of(ids));
  const pathTest = () =>
    random.of([
      `request.path.${random.of(["startsWith", "endsWith", "contains"])}(${text()})`,
      `request.path == ${text()}`,
      `${text()} == request.path`,
      `request.path in [${text()}, ${text()}]`,
    ]);
  const test = () =>
    random.of([
      pathTest(),
      pathTest(),
      `(${pathTest()} || ${pathTest()})`,
      `connection.id == ${id()}`,
      `(connection.id == ${id()} || connection.id in [${id()}, ${id()}])`,
      `request.headers["x-team"] == ${id()}`,
      `request.headers.team in [${id()}, ${id()}]`,
      `(request.headers["x-team"] == ${id()} || request.headers["x-team"] == ${id()})`,
      `(request.headers["x-team"] == ${id()} || connection.id == ${id()})`,
      `request.method in ["GET", "POST"]`,
      `request.method == "DELETE"`,
      `!(${pathTest()})`,
      `request.query.a == ["1"]`,
      `connection.id in []`,
      "true",
    ]);
  const operator = random.of([" && ", " && ", " || "]);
  return Array.from({ length: 1 + random.below(3) }, test).join(operator);
}

function randomRequest(random: Random): JudgedRequest {
  const team = random.of(["x-team", "X-Team", "team", "other"]);
  const headers = random.of([[], [team, random.of(ids)], [team, "ada", team, "bob"], ["x-team", "ada", "team", "bob"]]);
  return {
    ...judgedRequest(),
    basePath: random.of(["", "", "", "/v1"]),
    method: random.of(["GET", "POST", "DELETE", "PATCH"]),
    path: random.of(paths) + random.of(["", "?a=1", "?_method=DELETE", "?a=%zz"]),
    rawHeaders: headers,
    sentHeaders: () => headers,
    connection: { id: random.of(ids), tags: {}, metadata: {} },
  };
}

/** What all policies come to, one after the other. */
function judgedPlainly(rules: readonly PolicyRule[], request: JudgedRequest): unknown {
  const evaluation = { facts: new LazyRequestFacts(request), locals: [], steps: 100_000 };
  const results = rules.map((rule) => ({ rule, result: rule.evaluate(evaluation) }));
  const of = (effect: PolicyEffect) => results.filter(({ rule }) => rule.effect === effect);
  const matching = (effect: PolicyEffect) => of(effect).filter(({ result }) => result !== false);
  const [denied] = matching("deny");
  const logged = matching("log").map(({ rule }) => rule.id);
  if (denied !== undefined) return ["denied", denied.rule.id, logged];
  const allow = of("allow");
  if (allow.length > 0 && !allow.some(({ result }) => result === true)) {
    const failed = allow.map(({ rule, result }) => [rule.id, result instanceof EvaluationFailure]);
    return ["not allowed", failed, logged];
  }
  const held = matching("hold").map(({ rule }) => rule.id);
  return held.length > 0 ? ["held", held, logged] : ["allowed", [], logged];
}

function shown(verdict: Verdict): unknown {
  const logged = verdict.logged.map(({ rule }) => rule.id);
  switch (verdict.outcome) {
    case "denied":
      return ["denied", verdict.by.rule.id, logged];
    case "not allowed":
      return [
        "not allowed",
        verdict.policies.map(({ rule, result }) => [rule.id, result instanceof EvaluationFailure]),
        logged,
      ];
    case "held":
      return ["held", verdict.by.map(({ rule }) => rule.id), logged];
    case "unknown":
      return ["unknown"];
    case "allowed":
      return ["allowed", [], logged];
  }
}

/** `LATCHKEY_FUZZ_COUNT=100000` is the long form. */
const rounds = Math.ceil(Number(process.env["LATCHKEY_FUZZ_COUNT"] ?? 2_000) / 10);

it("comes to what all policies come to without an index", { timeout: 3_600_000 }, () => {
  const random = createRandom(44);
  const seen = new Map<string, number>();
  for (let i = 0; i < rounds; i += 1) {
    const effects: readonly PolicyEffect[] = random.of([["deny"], ["deny", "log"], ["allow"], ["deny", "hold", "log"]]);
    const rules = Array.from({ length: 1 + random.below(12) }, (_, at) =>
      createPolicyRule(
        { id: `p${at}`, description: "", scope: { kind: "environment", name: "" }, effect: random.of(effects) },
        randomCondition(random),
      ),
    );
    const set = createPolicySet(rules);
    for (let k = 0; k < 10; k += 1) {
      const request = randomRequest(random);
      const { caller, connection, host, integration } = request;
      const about = {
        ...{ integration: integration.key, provider: integration.provider, environment: integration.environment },
        ...{ key: caller.key, session: caller.session, host, connection: String(connection.id) },
      };
      const verdict = shown(set.judge(new LazyRequestFacts(request), about));
      const [outcome] = verdict as [string];
      seen.set(outcome, (seen.get(outcome) ?? 0) + 1);
      const plain = judgedPlainly(rules, request);
      if (JSON.stringify(verdict) === JSON.stringify(plain)) continue;
      const conditions = rules.map(({ id, effect, condition }) => [id, effect, "text" in condition && condition.text]);
      expect({ verdict, request, conditions }).toEqual({ verdict: plain, request, conditions });
    }
  }
  expect([...seen.keys()].toSorted()).toEqual(["allowed", "denied", "held", "not allowed"]);
});
