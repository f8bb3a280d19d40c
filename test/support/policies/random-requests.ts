import type { JsonValue } from "@bufbuild/protobuf";
import type { JudgedBody } from "../../../src/core/policies/judged-body.ts";
import type { JudgedRequest } from "../../../src/core/policies/request-facts.ts";
import type { Random } from "./random.ts";

const words = ["a", "b", "GET", "github", "ada", "/v1/a", "repo", "", "é𝕏", "17"];

/** Makes a random request that a policy could judge. */
export function randomRequest(random: Random): JudgedRequest {
  const rawHeaders = randomHeaders(random);
  return {
    method: random.of(["GET", "POST", "DELETE", "a"]),
    host: random.of(["api.github.com", "b", "api.example.com:8443"]),
    basePath: random.of(["", "/v1"]),
    path: random.of(["/", "/a", "/a%20b", "/repo/x", "/a/../b", "/%C3%A9", "/a%2Fb"]) + randomQuery(random),
    rawHeaders,
    sentHeaders: () => rawHeaders,
    body: randomBody(random),
    message: "none",
    nowMs: random.of([0, 1_767_225_600_000, 1_780_000_000_123, 1_774_746_000_000]),
    caller: {
      key: random.of(["a", "shop", ""]),
      session: random.of(["", "b"]),
      script: "",
      identity: {},
      scopes: random.of([[], ["proxy"], ["a", "b", "proxy"]]),
    },
    integration: { key: random.of(["github", "a"]), provider: "github", environment: "prod" },
    connection: {
      id: random.of(["ada", "b"]),
      tags: random.of<Record<string, string>>([{}, { a: "a" }, { a: "b", b: "" }]),
      metadata: { a: random.of<JsonValue>([1, "a", true]), deep: { a: "x" }, list: [1, "a"] },
    },
  };
}

const randomHeaders = (random: Random): string[] =>
  random.of([[], ["A", "a"], ["a", "b", "Accept", "application/json"], ["B", "x", "b", "y"]]);

const randomQuery = (random: Random): string => random.of(["", "?a=1", "?a=a&a=b&b", "?%61=b", "?a=%zz"]);

function randomBody(random: Random): JudgedBody {
  const text = random.of([
    () => JSON.stringify(randomJson(random, 3)),
    () =>
      JSON.stringify({
        a: randomJson(random, 1),
        list: [1, 2.5, "a", { a: 1 }],
        deep: { a: "a", b: randomJson(random, 0) },
      }),
    () => JSON.stringify({ text: random.of(words), flag: true, a: 3, b: "b", list: [] }),
    () => '{"a":1,"a":2}',
    () => "not json",
    () => undefined,
  ])();
  return text === undefined ? { kind: "none" } : { kind: "bytes", bytes: new TextEncoder().encode(text) };
}

/** Without null: the library does not see members that are null. */
function randomJson(random: Random, depth: number): JsonValue {
  const leaf = random.of<JsonValue>([0, 1, 2.5, -3, true, false, ...words]);
  if (depth === 0) return leaf;
  const inner = () => randomJson(random, depth - 1);
  return random.of<() => JsonValue>([
    () => leaf,
    () => [inner(), inner()],
    () => ({ a: inner(), b: inner(), list: [inner()], deep: inner() }),
    () => ({ text: inner(), flag: inner() }),
  ])();
}
