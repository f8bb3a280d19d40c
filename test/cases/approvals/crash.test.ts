import { expect, it } from "vitest";
import { Scope } from "../../../src/gen/latchkey/v1/access_pb.ts";
import { EnvironmentService } from "../../../src/gen/latchkey/v1/environment_pb.ts";
import { PolicyService } from "../../../src/gen/latchkey/v1/policy_pb.ts";
import { holdPolicy, patient } from "../../support/approvals/holding.ts";
import { startProvider, startProxied } from "../../support/peers/provider.ts";
import { secretKey, temporaryFolder } from "../../support/sidecar/harness.ts";
import { type Running, serveInProcess } from "../../support/sidecar/process.ts";

/** Requests that are held when the process is killed. */
const count = 100;

interface Answer {
  readonly status: number;
  readonly id: string;
}

/** Sends a request through `/proxy`; status 0 if the process was killed meanwhile. */
async function ask(running: Running, n: number, headers: Readonly<Record<string, string>> = {}): Promise<Answer> {
  try {
    const answer = await fetch(`${running.address("data")}/proxy/pay?n=${n}`, {
      method: "POST",
      body: `{"amount":${n}}`,
      headers: {
        authorization: `Bearer ${secretKey}`,
        "provider-config-key": "here",
        "connection-id": "ada",
        "content-type": "application/json",
        ...headers,
      },
    });
    await answer.arrayBuffer();
    return { status: answer.status, id: answer.headers.get("latchkey-approval") ?? "" };
  } catch {
    // The connection was cut by the kill.
    return { status: 0, id: "" };
  }
}

interface ShownApproval {
  readonly id: string;
  readonly state: string;
}

/** Calls the routes of approvals with the key that decides. */
function approvalsWith(key: string) {
  const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
  return {
    async list(running: Running, state = ""): Promise<readonly ShownApproval[]> {
      const query = `limit=1000${state === "" ? "" : `&state=${state}`}`;
      const answer = await fetch(`${running.address("data")}/approvals?${query}`, { headers });
      return ((await answer.json()) as { approvals: ShownApproval[] }).approvals;
    },
    async approve(running: Running, id: string): Promise<void> {
      const url = `${running.address("data")}/approvals/${id}/approve`;
      const answer = await fetch(url, { method: "POST", body: "{}", headers });
      expect(answer.status).toBe(200);
    },
  };
}

it("keeps requests waiting over kill -9, and sends none twice", { timeout: 300_000 }, async () => {
  const provider = await startProvider();
  const folder = await temporaryFolder();
  const env = { LATCHKEY_ALLOW_PRIVATE: `http://127.0.0.1:${provider.port}` };
  // Sets the store up in this process, so that a started process has all it needs.
  const setup = await startProxied(provider.port, { folder });
  await setup.client(PolicyService).createPolicy({ policy: holdPolicy });
  const scopes = [Scope.APPROVALS_DECIDE];
  const { secret } = await setup.client(EnvironmentService).createKey({ environment: "dev", scopes });
  await setup.stop();
  const approvals = approvalsWith(secret);
  const sent = () => provider.connections.flatMap((one) => one.requests().map(({ line }) => line));
  const numbers = Array.from({ length: count }, (_, n) => n);

  const first = await serveInProcess({ folder, env });
  const held = numbers.map((n) => ask(first, n, { prefer: "wait=600" }));
  await expect.poll(async () => (await approvals.list(first, "waiting")).length, patient).toBe(count);
  const before = (await approvals.list(first, "waiting")).map(({ id }) => id).sort();
  first.child.kill("SIGKILL");
  await first.exited;
  expect((await Promise.all(held)).map(({ status }) => status)).toEqual(numbers.map(() => 0));
  expect(sent()).toEqual([]);

  const second = await serveInProcess({ folder, env });
  expect((await approvals.list(second, "waiting")).map(({ id }) => id).sort()).toEqual(before);
  // Callers repeat their requests and find their approvals again.
  const repeated = await Promise.all(numbers.map((n) => ask(second, n, { prefer: "respond-async" })));
  expect(repeated.map(({ status }) => status)).toEqual(numbers.map(() => 202));
  expect(repeated.map(({ id }) => id).sort()).toEqual(before);
  for (const id of before) await approvals.approve(second, id);
  // Killed again while the approved requests are sent: each was sent once, or never.
  const sending = numbers.map((n) => ask(second, n));
  await expect.poll(() => sent().length, patient).toBeGreaterThan(0);
  second.child.kill("SIGKILL");
  await second.exited;
  await Promise.all(sending);

  const third = await serveInProcess({ folder, env });
  const states = await approvals.list(third);
  const used = states.filter(({ state }) => state === "used").length;
  const lines = sent();
  expect(new Set(lines).size).toBe(lines.length);
  // One that was used just before the kill may not have been sent.
  expect(lines.length).toBeLessThanOrEqual(used);
  await Promise.all(numbers.map((n) => ask(third, n, { prefer: "respond-async" })));
  const all = sent();
  expect(new Set(all).size).toBe(all.length);
  expect(all.length).toBe(lines.length + states.filter(({ state }) => state === "approved").length);
  console.log(
    `killed with ${count} held; ${lines.length} sent at the second kill, ${used} used, ${all.length} in the end`,
  );
});
