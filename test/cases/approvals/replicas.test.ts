import { expect, it, onTestFinished } from "vitest";
import { type HoldingSidecar, patient, startHolding } from "../../support/approvals/holding.ts";
import { startPostgres } from "../../support/postgres/postgres.ts";
import { startTestSidecar } from "../../support/sidecar/harness.ts";
import { lacks } from "../../support/sidecar/needs.ts";

/** A slow machine refuses no request. */
const unhurried = { "/config": JSON.stringify({ proxy: { overload: { delay: "0s" } } }) };

it.skipIf(lacks("postgres"))(
  "knows an answer on every replica, and sends a request once among all",
  { timeout: 120_000 },
  async () => {
    const server = await startPostgres();
    onTestFinished(() => server.stop());
    const env = { LATCHKEY_STORE: server.storeUrl("approvals"), LATCHKEY_CONFIG: "/config" };
    const first = await startHolding({ env, files: unhurried });
    const more = { ...env, LATCHKEY_ALLOW_PRIVATE: first.config.allowPrivate.join(",") };
    const others = await Promise.all([1, 2].map(() => startTestSidecar({ env: more, files: unhurried })));
    const replicas = [first, ...others] as const;
    const ask = (at: number, headers: Readonly<Record<string, string>>) =>
      (replicas[at] ?? first).rest("POST", "/proxy/pay", {
        body: { amount: 5 },
        headers: { ...first.proxyHeaders, ...headers },
      });
    const waits = async () => {
      const all = await Promise.all(replicas.map((one) => one.metric("latchkey_approval_waits")));
      return all.reduce<number>((sum, one) => sum + (one ?? 0), 0);
    };
    // The same request waits on each replica, for one and the same approval.
    const held = replicas.map((_, at) => ask(at, { prefer: "wait=300" }));
    await expect.poll(waits, patient).toBe(3);
    const ids = await first.waiting();
    expect(ids).toHaveLength(1);
    await answerAt(first, others[1]?.data ?? "", ids[0] ?? "");
    const answeredAt = performance.now();
    const answers = await Promise.all(held);
    console.log(`the last replica has known the answer after ${Math.round(performance.now() - answeredAt)} ms`);
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 409, 409]);
    expect(first.sent().filter((line) => line.startsWith("POST"))).toHaveLength(1);
    // Approved, and repeated everywhere at once.
    const asked = await ask(0, { prefer: "respond-async" });
    const id = asked.headers.get("latchkey-approval") ?? "";
    await answerAt(first, others[0]?.data ?? "", id);
    const named = { "latchkey-approval": id, prefer: "respond-async" };
    const repeated = await Promise.all(Array.from({ length: 30 }, (_, n) => ask(n % 3, named)));
    expect(repeated.filter(({ status }) => status === 200)).toHaveLength(1);
    expect(repeated.filter(({ status }) => status !== 200 && status !== 409)).toEqual([]);
    expect(first.sent().filter((line) => line.startsWith("POST"))).toHaveLength(2);
  },
);

async function answerAt({ decider }: HoldingSidecar, data: string, id: string): Promise<void> {
  const headers = { authorization: `Bearer ${decider}`, "content-type": "application/json" };
  const answer = await fetch(`${data}/approvals/${id}/approve`, { method: "POST", body: "{}", headers });
  expect(answer.status).toBe(200);
}
