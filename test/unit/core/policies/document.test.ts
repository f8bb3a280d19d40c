import { readFileSync } from "node:fs";
import * as v from "valibot";
import { expect, it } from "vitest";
import { parse } from "yaml";
import { refusingIds } from "../../../../src/core/policies/decisions.ts";
import { mistakesInPolicies, policyList, policyOf } from "../../../../src/core/policies/policy-file.ts";
import { ruleOf } from "../../../../src/core/policies/policy-rules.ts";
import { createPolicySet } from "../../../../src/core/policies/policy-set.ts";
import { LazyRequestFacts } from "../../../../src/core/policies/request-facts.ts";
import { variables } from "../../../../src/core/policies/variables.ts";
import { judgedRequest } from "../../../support/policies/judged-request.ts";

const page = readFileSync(new URL("../../../../docs/policies.md", import.meta.url), "utf8");

it("describes every variable", () => {
  for (const name of Object.keys(variables)) {
    const [root, field] = name.split(".");
    const row = page.split("\n").find((line) => line.includes(`\`${root}.`) && line.includes(`.${field}\``));
    expect(row, name).toBeDefined();
  }
});

it("shows policies that decide as its table says", () => {
  const [, yaml = ""] = /```yaml\n([\s\S]*?)```/.exec(page) ?? [];
  const policies = v.parse(policyList, (parse(yaml) as { policies: unknown }).policies);
  expect(mistakesInPolicies(policies)).toEqual([]);
  const set = createPolicySet(policies.map(policyOf).map(ruleOf));
  const rows = [...page.matchAll(/^\| `(\w+)` \| `(\w+)` \| `([A-Z]+) (\S+)`(?: `(.+)`)? \| (.*) \|$/gm)];
  expect(rows.length).toBeGreaterThan(8);
  for (const [line, key = "", integration = "", method = "", path = "", body, outcome] of rows) {
    const request = judgedRequest({
      method,
      path,
      basePath: "",
      caller: { key, session: "", script: "", identity: {}, scopes: [] },
      integration: { key: integration, provider: integration, environment: "prod" },
      body: body === undefined ? { kind: "none" } : { kind: "bytes", bytes: new TextEncoder().encode(body) },
    });
    const about = { integration, key, session: "", host: request.host, provider: integration, environment: "prod" };
    const refusing = refusingIds(set.judge(new LazyRequestFacts(request), about));
    const shown = refusing.length === 0 ? "allowed" : `denied: ${refusing.map((id) => `\`${id}\``).join(", ")}`;
    expect(shown, line).toBe(outcome);
  }
});
