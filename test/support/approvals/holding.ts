import { expect } from "vitest";
import { Scope } from "../../../src/gen/latchkey/v1/access_pb.ts";
import { EnvironmentService } from "../../../src/gen/latchkey/v1/environment_pb.ts";
import { PolicyEffect, PolicyService } from "../../../src/gen/latchkey/v1/policy_pb.ts";
import { type ProxiedSidecar, type RecordingProvider, startProvider, startProxied } from "../peers/provider.ts";
import type { HarnessOptions, RestAnswer, RestOptions } from "../sidecar/harness.ts";

/** A sidecar in which a policy holds every request but GET, and a key that may answer. */
export interface HoldingSidecar extends ProxiedSidecar {
  readonly provider: RecordingProvider;
  /** Request lines that have reached the provider. */
  readonly sent: () => readonly string[];
  readonly decider: string;
  /** A request through `/proxy`. */
  ask(method: string, path: string, options?: RestOptions): Promise<RestAnswer>;
  /** Answers with the key of the decider. */
  answer(id: string, how: "approve" | "deny", body?: object): Promise<RestAnswer>;
  /** IDs of the approvals that wait. */
  waiting(): Promise<readonly string[]>;
}

/** A loaded machine is slow. */
export const patient = { timeout: 30_000, interval: 20 };

export const holdPolicy = {
  id: "changes",
  environment: "dev",
  effect: PolicyEffect.HOLD,
  condition: 'request.method != "GET"',
  description: "people look at changes",
  hold: { wait: { seconds: 0n, nanos: 0 }, remember: { seconds: 600n, nanos: 0 } },
};

export async function startHolding(options: HarnessOptions = {}): Promise<HoldingSidecar> {
  const provider = await startProvider();
  const running = await startProxied(provider.port, options);
  await running.client(PolicyService).createPolicy({ policy: holdPolicy });
  const { secret: decider } = await running
    .client(EnvironmentService)
    .createKey({ environment: "dev", id: "decider", scopes: [Scope.APPROVALS_DECIDE] });
  const ask: HoldingSidecar["ask"] = (method, path, { headers, ...rest } = {}) => {
    const { authorization = "", ...names } = running.proxyHeaders;
    const own = rest.key === undefined ? { authorization } : {};
    return running.rest(method, `/proxy${path}`, { ...rest, headers: { ...own, ...names, ...headers } });
  };
  await expect.poll(async () => (await ask("DELETE", "/probe")).status, patient).toBe(202);
  const holding: HoldingSidecar = {
    ...running,
    provider,
    decider,
    sent: () => provider.connections.flatMap((one) => one.requests().map(({ line }) => line)),
    ask,
    answer: (id, how, body = {}) => running.rest("POST", `/approvals/${id}/${how}`, { key: decider, body }),
    async waiting() {
      const { body } = await running.rest("GET", "/approvals?state=waiting", { key: decider });
      return (body.approvals as { id: string }[]).map(({ id }) => id);
    },
  };
  const [probe = ""] = await holding.waiting();
  await holding.answer(probe, "deny");
  return holding;
}
