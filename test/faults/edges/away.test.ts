/** The short form of `npm run faults:edges -- --away 600`: all brokers are killed for some seconds. */
import { describe, expect, it } from "vitest";
import { lacks } from "../../support/sidecar/needs.ts";
import { describeAway, runAway } from "./away.ts";

describe.skipIf(lacks("postgres"))("edges whose brokers are all killed", () => {
  it("fail no call, follow the brokers again, and then refuse what was revoked meanwhile", async () => {
    const outcome = await runAway({ edges: 3, seconds: 5, rate: 60, say: () => {} });
    console.log(describeAway(outcome));
    const { calls, unknowing, ended } = outcome;
    expect(ended).toEqual([]);
    expect(Object.keys(calls)).toEqual(["200"]);
    // Nothing was revoked where nobody could tell: what comes after that is the proof.
    expect(unknowing).toBe(6);
  }, 150_000);
});
