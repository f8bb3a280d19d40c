/** The short form of `npm run faults:edges`: fewer edges, each broker restarted once. */
import { describe, expect, it } from "vitest";
import { lacks } from "../../support/sidecar/needs.ts";
import { describePhase, runRestarts } from "./run.ts";

describe.skipIf(lacks("postgres"))("three brokers over PostgreSQL with edges", () => {
  it("lose nothing and fail no call when brokers and edges restart, and a broker is killed", async () => {
    const outcome = await runRestarts({
      ...{ edges: 3, rounds: 1, replacedEdges: 1, senders: 3, accessTokenS: 6, pauseMs: 300 },
      say: () => {},
    });
    const { phases, acknowledged, lost, wrong, overtaken, renewals, metadata, ended } = outcome;
    console.log(phases.map(describePhase).join("\n"), renewals);
    expect({ lost, wrong, overtaken, ended }).toEqual({ lost: [], wrong: [], overtaken: 0, ended: [] });
    expect(acknowledged).toBeGreaterThan(100);
    expect(metadata.lost).toEqual([]);
    for (const { what, failedCalls, failedWebhooks, failedWrites } of phases) {
      expect({ what, failedCalls }).toEqual({ what, failedCalls: 0 });
      // What was under way in a process that is killed gets no answer, and its sender repeats it.
      if (what === "kill of a broker") continue;
      expect({ what, failedWebhooks, failedWrites }).toEqual({ what, failedWebhooks: 0, failedWrites: 0 });
    }
    expect(renewals).toMatchObject({ reused: 0, revoked: 0 });
    expect(renewals.expiries).toBeGreaterThan(0);
    expect(renewals.requests).toBe(renewals.expiries + renewals.inGrace);
  }, 360_000);
});
