import { expect, it } from "vitest";
import { compareEvaluators } from "../../../support/policies/differential.ts";

/** `LATCHKEY_FUZZ_COUNT=100000` is the long form. */
const conditions = Number(process.env["LATCHKEY_FUZZ_COUNT"] ?? 2_000);

it("gives the results of the CEL library for random conditions and requests", { timeout: 3_600_000 }, () => {
  const { compiled, results, differences } = compareEvaluators({ seed: 29, conditions });
  expect(differences).toEqual([]);
  expect(compiled).toBeGreaterThan(conditions / 2);
  expect(Math.min(results.true, results.false, results.error)).toBeGreaterThan(conditions / 10);
});
