import { describe, expect, it } from "vitest";
import { compileCondition, isCondition } from "../../../../src/core/policies/condition.ts";
import { policyLimits } from "../../../../src/core/policies/limits.ts";
import { type JudgedRequest, LazyRequestFacts } from "../../../../src/core/policies/request-facts.ts";
import { EvaluationFailure } from "../../../../src/core/policies/values.ts";
import { judgedRequest } from "../../../support/policies/judged-request.ts";

/** Returns the result, or the message of the error. */
function evaluate(text: string, request: Partial<JudgedRequest> = {}): boolean | string {
  const condition = compileCondition(text);
  if (!isCondition(condition)) throw new Error(`${condition.line}:${condition.column} ${condition.message}`);
  const facts = new LazyRequestFacts(judgedRequest(request));
  const result = condition.evaluate({ facts, locals: [], steps: policyLimits.steps });
  return result instanceof EvaluationFailure ? result.message : result;
}

const json = (text: string): Partial<JudgedRequest> => ({
  body: { kind: "bytes", bytes: new TextEncoder().encode(text) },
});

function mistake(text: string): string {
  const condition = compileCondition(text);
  if (isCondition(condition)) throw new Error("the condition has no mistake");
  return `${condition.line}:${condition.column} ${condition.message}`;
}

describe("checks a condition when it is written", () => {
  it.each([
    ["request.mthod == 'x'", "1:1 `request` has no field `mthod`"],
    ["true &&\n  foo == 1", "2:3 unknown variable `foo`"],
    ["request", "1:1 name a field: `request.method`"],
    ["request.method == 1", "1:16 string and int are never equal"],
    ["request.method in [1, 2]", "string is never in list(int)"],
    ["request.method", "1:1 the condition must be a bool, not string"],
    ["request.path.foo('a')", "there is no function `foo`"],
    ["request.path.startsWith(1)", "`startsWith` cannot be used with (string, int)"],
    ["request.headers['X-Team'] == 'a'", 'names of headers are in lower case: "x-team"'],
    ["request.path.matches('(a')", "missing closing )"],
    ["request.path.matches(request.host)", "the pattern of `matches` must be a literal"],
    ["request.path.matches('(a{1,100}){1,10}')", "the pattern repeats too much"],
    ["has(request.body)", "must be `request.body != null`"],
    ["has(request.method)", "`request.method` is always set"],
    ["request.time > timestamp('yesterday')", "Failed to parse timestamp"],
    ["1 / 0 == 1", "divide by zero"],
    ["[1].exists(request, true)", "must not be the variable of a macro"],
    ["[1].all(a, [2].all(b, [3].all(c, true)))", "macros must be nested at most 2 deep"],
    ["request.method &&", "1:16 this is not CEL"],
    ["", "1:1 this is not CEL"],
    ["99999999999999999999 == 1", "the number must fit in 64 bits"],
    [`"${"a".repeat(4_096)}" == request.path`, "must have at most 4096 characters"],
    [`${"(".repeat(2_000)}true${")".repeat(2_000)}`, "nested too deeply"],
    [`${Array.from({ length: 400 }, () => "1").join("+")} == 1`, "too large"],
  ])("%#", (text, message) => {
    expect(mistake(text)).toContain(message);
  });
});

describe("evaluates a condition", () => {
  it.each<[string, boolean]>([
    // An operand that decides makes errors of the other irrelevant.
    ["false && request.headers.none == 'a'", false],
    ["request.headers.none == 'a' && false", false],
    ["true || request.headers.none == 'a'", true],
    ["request.headers.none == 'a' || true", true],
    ["[1, 2].exists(i, i == 2 || request.headers.none == 'a')", true],
    ["request.method == 'POST' ? false : true", false],
    ["request.query.tag == ['a b', 'c'] && 'state' in request.query", true],
    ["request.path == '/v1/über/x' && request.raw_path == '/v1/%C3%BCber/x'", true],
    ["request.headers['x-team'] == 'one, two' && 'x-team' in request.headers", true],
    ["!('authorization' in request.headers)", true],
    ["request.time.getHours('Europe/Berlin') == 14 && request.time.getDayOfWeek() == 3", true],
    ["request.time - timestamp('2026-07-01T00:00:00Z') == duration('12h')", true],
    ["connection.tags.team == 'shop' && connection.metadata.plan.seats > 2", true],
    ["caller.scopes.exists_one(scope, scope == 'proxy')", true],
    ["request.body == null && request.size == 0", true],
    ["size('é𝕏') == 2 && 'x'.matches('^.$')", true],
  ])("%s", (text, expected) => {
    expect(evaluate(text)).toBe(expected);
  });

  it.each<[string, string, boolean | string]>([
    ['{"a": {"b": [1, 2.5, "c"]}}', "request.body.a.b[1] == 2.5 && request.body.a.b.exists(e, e == 'c')", true],
    ['{"id": 9007199254740993}', "request.body.id == 9007199254740993", true],
    ['{"a": null}', "'a' in request.body && has(request.body.a) && request.body.a == null", true],
    ['{"a": 1, "a": 2}', "request.body.a == 2", "the body has a key twice"],
    ['{"a": 1, "\\u0061": 2}', "request.body.a == 2", "the body has a key twice"],
    ['{"a": 1', "request.body.a == 1", "the body is not JSON"],
    ["[1,]", "request.body[0] == 1", "the body is not JSON"],
    ["01", "request.body == 1", "the body is not JSON"],
    ["\ufeff{}", "request.body == 1", "the body is not JSON"],
    ["[".repeat(33) + "]".repeat(33), "request.body == 1", "the body is nested too deeply"],
    [`"${"a".repeat(65_536)}"`, "request.body == 'a'", "the body is larger than 65536 bytes"],
    ['{"a": "x"}', "request.body.b == 'x'", 'there is no field "b"'],
    ['{"a": 7}', "request.body.a", "the condition is neither true nor false"],
  ])("reads the body %#", (text, condition, expected) => {
    expect(evaluate(condition, json(text))).toBe(expected);
  });

  it.each<[string, string]>([
    ["/a/%2e%2e/b", "request.path == '/a'"],
    ["/a%2Fb", "request.path.startsWith('/')"],
    ["/a//b", "request.path == '/a//b'"],
  ])("does not guess at the segments of %s", (path, condition) => {
    expect(evaluate(condition, { basePath: "", path })).toBe("servers may disagree about the segments of the path");
  });

  it("does not trust the method of a request that asks for another one", () => {
    const overridden = [
      { rawHeaders: ["X-HTTP-Method-Override", "DELETE"] },
      { path: "/a?_method=delete" },
      { rawHeaders: ["Nango-Proxy-X-HTTP-Method", "DELETE"] },
    ];
    for (const request of overridden) {
      expect(evaluate("request.method == 'POST'", request)).toContain("of another method");
    }
    expect(evaluate("request.method == 'POST'", { rawHeaders: ["X-HTTP-Method", "post"] })).toBe(true);
  });

  it("gives up when conditions take too much work", () => {
    const list = `[${Array.from({ length: 400 }, (_, i) => i).join(",")}]`;
    expect(evaluate(`${list}.all(a, request.body.all(b, a + b >= 0))`, json(`[${"1,".repeat(400)}1]`))).toContain(
      "too much work",
    );
    expect(evaluate("request.body.matches('(a|b)*c')", json(JSON.stringify("a".repeat(3_000))))).toContain(
      "at most 2048 characters",
    );
  });
});
