/** The short form of `npm run faults:failover`: one kill of the primary, and one stale standby. */
import { describe, expect, it } from "vitest";
import { lacks } from "../../support/sidecar/needs.ts";
import { describeFailover, runFailover } from "./run.ts";

describe.skipIf(lacks("patroni"))("three brokers over PostgreSQL under Patroni", () => {
  it("lose nothing when the primary is killed, and follow a stale standby that was promoted by hand", async () => {
    const outcome = await runFailover({
      ...{ count: 2_000, senders: 12, kills: 1, everyMs: 600_000 },
      ...{ ttl: 10, accessTokenS: 8, graceS: 60 },
      say: () => {},
    });
    const { acknowledged, lost, wrong, misled, failovers, renewals, metadata, stale, ended } = outcome;
    expect({ lost, wrong, misled, ended }).toEqual({ lost: [], wrong: [], misled: 0, ended: [] });
    expect(acknowledged).toBe(2_000);
    expect(metadata.lost).toEqual([]);
    console.log(failovers.map(describeFailover).join("\n"), renewals, stale);
    expect(failovers.length).toBeGreaterThanOrEqual(1);
    for (const { writesBackMs } of failovers) for (const ms of writesBackMs) expect(ms).toBeLessThan(60_000);
    expect(renewals).toMatchObject({ reused: 0, revoked: 0 });
    expect(renewals.requests).toBe(renewals.expiries + renewals.inGrace);
    for (const ms of stale.noticedMs) expect(ms).toBeLessThan(20_000);
    expect(stale.usedLater).toBe(0);
  }, 360_000);
});
