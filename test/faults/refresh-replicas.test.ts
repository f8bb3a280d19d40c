/**
 * Three latchkeys on one PostgreSQL, and a provider that accepts each refresh token once (O16, L3). The long form:
 * LATCHKEY_FAULT_ROUNDS=100 LATCHKEY_FAULT_CALLS=10000 LATCHKEY_FAULT_LEASE_MS=30000, with as many calls at each
 * expiry, up to 4,000 of them over sockets, and the production lease; about half an hour.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import type { TallyName } from "../../src/dev/sandbox/seen.ts";
import { type Started, started } from "../cases/sandbox/started.ts";
import { postgresForFile } from "../support/postgres/stores.ts";
import { lacks } from "../support/sidecar/needs.ts";
import { type Replicas, startReplicas } from "./refresh-replicas.ts";

const rounds = Number(process.env["LATCHKEY_FAULT_ROUNDS"] ?? 3);
const calls = Number(process.env["LATCHKEY_FAULT_CALLS"] ?? 600);
const leaseMs = Number(process.env["LATCHKEY_FAULT_LEASE_MS"] ?? 1_500);
const load = { sockets: Math.min(4_000, Math.ceil(calls * 0.6)), streams: 0 };
load.streams = calls - load.sockets;
/** How long the provider holds an answer whose replica is killed: until then, on any machine. */
const untilKilledMs = leaseMs + 60_000;
/** 60 of 100 rounds have no fault, 20 a stopped holder, 20 a killed one. */
const kinds = ["plain", "stopped", "killed", "plain", "plain"] as const;
const roundMs = 25_000 + calls * 3 + leaseMs * 3;

describe.skipIf(lacks("postgres"))("replicas and one token", () => {
  const file = postgresForFile();

  async function begin(graceS: number, lease = leaseMs) {
    const sandbox = await started({ behaviour: { graceS } });
    const schema = file.newSchema();
    const replicas = await startReplicas({ store: file.server.storeUrl(schema), sandbox, count: 3, leaseMs: lease });
    await replicas.authorise();
    return { sandbox, replicas, schema };
  }

  /** The provider has processed the request and holds its answer; then the fault hits the requesting replica. */
  async function whileHeld({ sandbox, replicas }: Awaited<ReturnType<typeof begin>>, holdMs: number) {
    sandbox.behave({ answers: { token: [{ kind: "ordinary", holdMs, times: 1 }] } });
    const before = tallies(sandbox);
    const calling = replicas.burst(load);
    await expect.poll(() => tallies(sandbox).refreshes - before.refreshes, { interval: 5 }).toBe(1);
    // A stopped replica with unread requests would find them too old.
    if (holdMs > leaseMs) await replicas.arrived();
    return { calling, before };
  }

  it(
    `O16 send one request at each of ${rounds} expiries, whatever happens to the requesting replica`,
    async () => {
      const all = await begin(60);
      const { sandbox, replicas } = all;
      for (let round = 0; round < rounds; round += 1) {
        const kind = kinds[round % kinds.length] ?? "plain";
        const what = `round ${round}, ${kind}`;
        // For a stopped replica the answer must still be in transit when the lease expires.
        const holdMs = { plain: 400, stopped: leaseMs + 4_000, killed: untilKilledMs }[kind];
        const { calling, before } = await whileHeld(all, holdMs);
        let answers: ReadonlyMap<string, number>;
        if (kind === "killed") {
          const { startAnother } = replicas.kill(await replicas.holder());
          answers = await calling;
          // Callers of the killed replica get no answer; callers of the others succeed.
          expect(
            [...answers.keys()].filter((answer) => answer === "200"),
            what,
          ).toEqual(["200"]);
          expect(answers.get("200"), what).toBeGreaterThanOrEqual(Math.floor((calls * 2) / 3) - 2);
          await startAnother();
        } else {
          if (kind === "stopped") {
            await stopFor(replicas, leaseMs + 1_500);
          }
          answers = await calling;
          expect([...answers], what).toEqual([["200", calls]]);
        }
        const after = tallies(sandbox);
        const retries = kind === "plain" ? 0 : 1;
        expect(after.requests - before.requests, what).toBe(1 + retries);
        expect(after.supersededInGrace - before.supersededInGrace, what).toBe(retries);
        expect(after.supersededReused, what).toBe(0);
        expect((await replicas.show()).errors, what).toEqual([]);
        await replicas.expire();
      }
      expect(tallies(sandbox).familiesRevoked).toBe(0);
      console.log(`O16: ${rounds} expiries, ${calls} calls each`, tallies(sandbox));
    },
    30_000 + rounds * roundMs,
  );

  it(
    "O15 cannot save a token whose answer was lost at a strict provider: reported at once, not retried",
    async () => {
      const all = await begin(0);
      const { sandbox, replicas } = all;
      const { calling, before } = await whileHeld(all, untilKilledMs);
      replicas.kill(await replicas.holder());
      const answers = await calling;
      expect(answers.get("reauthorization_required")).toBeGreaterThan(load.sockets / 2);
      expect(answers.get("200")).toBeUndefined();
      expect((await replicas.show()).errors).toEqual([{ type: "auth", log_id: expect.any(String) }]);
      expect(await replicas.reason()).toBe("rotation_response_lost");
      expect([...(await replicas.burst({ sockets: 200, streams: 0 }))]).toEqual([["reauthorization_required", 200]]);
      const after = tallies(sandbox);
      expect([after.requests - before.requests, after.supersededReused]).toEqual([2, 1]);
      // After a new authorization everything works.
      await replicas.authorise();
      expect([...(await replicas.burst({ sockets: 200, streams: 0 }))]).toEqual([["200", 200]]);
      expect(tallies(sandbox).requests - after.requests).toBe(1);
    },
    40_000 + roundMs,
  );

  it(
    "O12 send one request in all for a revoked grant",
    async () => {
      const { sandbox, replicas } = await begin(0);
      sandbox.revoke({ user: "ada@example.com" });
      sandbox.behave({ answers: { token: [{ kind: "ordinary", delayMs: 200 }] } });
      const before = tallies(sandbox);
      for (let i = 0; i < 3; i += 1) {
        const answers = await replicas.burst({ sockets: load.sockets, streams: 0 });
        expect([...answers]).toEqual([["reauthorization_required", load.sockets]]);
      }
      expect(tallies(sandbox).requests - before.requests).toBe(1);
    },
    40_000 + roundMs,
  );

  it(
    "keep the answer of the latest request: a stopped replica that resumes discards its own",
    async () => {
      const { sandbox, replicas } = await begin(60);
      sandbox.behave({
        answers: {
          token: [
            { kind: "ordinary", holdMs: leaseMs + 3_000, times: 1 },
            { kind: "ordinary", holdMs: 5_000, times: 1 },
          ],
        },
      });
      const calling = replicas.burst(load);
      const first = await replicas.holder();
      const child = replicas.all[first]?.child;
      // A stopped replica with unread requests would find them too old.
      await replicas.arrived();
      child?.kill("SIGSTOP");
      await expect.poll(() => tallies(sandbox).requests, { timeout: leaseMs + 10_000 }).toBe(2);
      child?.kill("SIGCONT");
      expect([...(await calling)]).toEqual([["200", calls]]);
      expect(await replicas.outcomes("overtaken")).toEqual([0, 1, 2].map((i) => (i === first ? 1 : 0)));
      expect((await replicas.outcomes("renewed")).reduce((sum, one) => sum + one)).toBe(1);
      await replicas.expire();
      expect([...(await replicas.burst({ sockets: 100, streams: 0 }))]).toEqual([["200", 100]]);
      const { requests, supersededReused } = tallies(sandbox);
      expect([requests, supersededReused]).toEqual([3, 0]);
    },
    40_000 + roundMs,
  );

  it(
    "uses the answer of a replica that was stopped for less than its lease: one request in all",
    async () => {
      // Long enough for a busy machine, which stops a replica for longer than was asked.
      const all = await begin(0, 6 * leaseMs);
      const { sandbox, replicas } = all;
      const { calling, before } = await whileHeld(all, leaseMs);
      await stopFor(replicas, leaseMs / 5);
      expect([...(await calling)]).toEqual([["200", calls]]);
      expect(tallies(sandbox).requests - before.requests).toBe(1);
    },
    40_000 + roundMs,
  );

  it("wait out a store that refuses writes for a moment: one request, and no caller sees an error", async () => {
    const { sandbox, replicas, schema } = await begin(0);
    await file.server.query(`
        create function ${schema}.full() returns trigger language plpgsql as
        $$ begin raise 'could not extend file: No space left on device' using errcode = 'disk_full'; end $$;
        create trigger full_disk before insert or update on ${schema}.head execute function ${schema}.full();`);
    const calling = replicas.burst({ sockets: 60, streams: 30 });
    await sleep(250);
    expect(sandbox.seen().requests.token).toBeUndefined();
    await file.server.query(`drop trigger full_disk on ${schema}.head`);
    expect([...(await calling)]).toEqual([["200", 90]]);
    expect(sandbox.seen().requests.token).toBe(1);
  });
});

/** Pauses the requesting replica for this time. */
async function stopFor(replicas: Replicas, ms: number): Promise<void> {
  const child = replicas.all[await replicas.holder()]?.child;
  child?.kill("SIGSTOP");
  await sleep(ms);
  child?.kill("SIGCONT");
}

function tallies(
  sandbox: Started,
): Pick<Record<TallyName, number>, "refreshes" | "familiesRevoked"> &
  Pick<Record<TallyName, number>, "supersededReused" | "supersededInGrace"> & { readonly requests: number } {
  const { requests, tallies: all } = sandbox.seen();
  const { refreshes, familiesRevoked, supersededReused, supersededInGrace } = all;
  return { requests: requests.token ?? 0, refreshes, familiesRevoked, supersededReused, supersededInGrace };
}
