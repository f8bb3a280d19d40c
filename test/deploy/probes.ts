import { createHealth, type HealthAnswer } from "./grpc-health.ts";

/** What the kubelet and a load balancer learn of a process, by HTTP and by gRPC. */
export interface Probes {
  /** Statuses of `/livez`, `/startupz` and `/readyz`, and what `grpc.health.v1` says. */
  look(): Promise<{
    readonly live: number;
    readonly started: number;
    readonly ready: number;
    readonly why: string;
    readonly grpc: HealthAnswer;
  }>;
}

export function createProbes(at: { readonly ops: string; readonly control: string }): Probes {
  const health = createHealth(at.control);
  const probe = async (path: string) => {
    const answer = await fetch(`${at.ops}${path}`);
    return { status: answer.status, text: (await answer.text()).trim() };
  };
  return {
    async look() {
      const [live, started, ready, grpc] = await Promise.all([
        probe("/livez"),
        probe("/startupz"),
        probe("/readyz"),
        health.check(""),
      ]);
      return { live: live.status, started: started.status, ready: ready.status, why: ready.text, grpc };
    },
  };
}
