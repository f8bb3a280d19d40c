import { celMap, parse, plan } from "@bufbuild/cel";
import { conditionEnv } from "../../../src/core/policies/library.ts";
import { createPolicyRule, type PolicyRule } from "../../../src/core/policies/policy-rule.ts";
import { createPolicySet } from "../../../src/core/policies/policy-set.ts";
import { type JudgedRequest, LazyRequestFacts } from "../../../src/core/policies/request-facts.ts";
import { recordFigure } from "../score/figure.ts";

const headers = [
  ...["Host", "127.0.0.1:3003", "User-Agent", "node", "Accept", "*/*", "Accept-Encoding", "gzip", "X-Team", "shop"],
  ...["Provider-Config-Key", "github", "Connection-Id", "ada", "Content-Type", "application/json"],
];

const requests: readonly JudgedRequest[] = ["GET", "POST", "DELETE", "GET"].map((method, i) => ({
  method,
  host: "api.github.com",
  basePath: "",
  path: `/repos/acme/shop/issues/${i}?state=open`,
  rawHeaders: headers,
  sentHeaders: () => headers,
  body: { kind: "none" },
  message: "none",
  nowMs: 1_780_000_000_000 + i,
  caller: { key: "shop", session: "", script: "", identity: {}, scopes: ["proxy"] },
  integration: { key: "github", provider: "github", environment: "prod" },
  connection: { id: "ada", tags: { team: "shop" }, metadata: {} },
}));

/** Kinds of conditions that people write, none of which matches the requests. */
const conditions = [
  (i: number) => `request.method == "DELETE" && request.path.startsWith("/orgs/${i}/")`,
  (i: number) => `integration.key == "salesforce-${i}"`,
  (i: number) => `request.path.startsWith("/repos/acme/secret-${i}/")`,
  (i: number) => `request.method in ["POST", "PUT"] && request.path.endsWith("/transfer-${i}")`,
  (i: number) => `caller.key == "agent-${i}" && request.method != "GET"`,
  (i: number) => `request.host == "uploads-${i}.github.com"`,
  (i: number) => `request.headers["x-team"] == "team-${i}"`,
  (i: number) => `connection.id == "user-${i}" || connection.id in ["a-${i}", "b-${i}"]`,
  (i: number) => `request.path.contains("/admin-${i}")`,
  (i: number) => `request.method == "GET" && request.query.all(name, name == "q-${i}")`,
];

const rulesOf = (count: number): PolicyRule[] =>
  Array.from({ length: count }, (_, i) =>
    createPolicyRule(
      { id: `p${i}`, description: "", scope: { kind: "environment", name: "" }, effect: "deny" },
      (conditions[i % conditions.length] ?? conditions[0])?.(i) ?? "false",
    ),
  );

/** Measures what policies cost a request, beside the CEL library's own evaluator with values that are ready. */
export function policies(count = 200_000): void {
  const bindings = libraryBindings();
  console.log("| Policies | ns a request | with the CEL library |\n|--:|--:|--:|");
  for (const size of [0, 1, 10, 100]) {
    const rules = rulesOf(size);
    const set = createPolicySet(rules);
    const about = {
      integration: "github",
      key: "shop",
      session: "",
      host: "api.github.com",
      provider: "github",
      environment: "prod",
      connection: "ada",
    };
    const plans = rules.map((_, i) => plan(conditionEnv(), parse((conditions[i % 10] ?? (() => "false"))(i)).expr));
    const ours = () => {
      for (const request of requests) {
        const { outcome } = set.judge(new LazyRequestFacts(request), about);
        if (outcome !== "allowed") throw new Error(`the request was ${outcome}`);
      }
    };
    const theirs = () => {
      for (const values of bindings) for (const evaluate of plans) evaluate(values);
    };
    const rounds = Math.max(100, Math.floor(count / (1 + size)));
    const own: number[] = [];
    const library: number[] = [];
    for (let k = 0; k < 7; k += 1) {
      own.push(nanoseconds(ours, rounds));
      library.push(nanoseconds(theirs, Math.max(20, Math.floor(rounds / 20))));
    }
    if (size > 0) {
      const peers = { "the CEL library": library };
      recordFigure({ name: `policies, ${size} a request`, unit: "ns of CPU", better: "lower", own, peers });
    }
    console.log(`| ${size} | ${median(own)} | ${size === 0 ? "–" : median(library)} |`);
  }
}

function libraryBindings() {
  return requests.map(({ method, host, path }) => ({
    "request.method": method,
    "request.host": host,
    "request.path": path.slice(0, path.indexOf("?")),
    "request.query": celMap(new Map([["state", ["open"]]])),
    "request.headers": celMap(new Map([["x-team", "shop"]])),
    "caller.key": "shop",
    "integration.key": "github",
    "connection.id": "ada",
  }));
}

function nanoseconds(run: () => void, rounds: number): number {
  // Time of the processor: others may use the machine too.
  const begin = process.cpuUsage();
  for (let i = 0; i < rounds; i += 1) run();
  const { user, system } = process.cpuUsage(begin);
  return ((user + system) * 1_000) / rounds / requests.length;
}

const median = (values: readonly number[]): string =>
  Math.round([...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0).toLocaleString("en");
