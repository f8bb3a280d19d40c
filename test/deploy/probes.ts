import { createHealth, type HealthAnswer } from "./grpc-health.ts";

/** The probes of the kubelet and of a load balancer, by HTTP and gRPC. */
export interface Probes {
  /** The statuses of `/livez`, `/startupz` and `/readyz`, and of `grpc.health.v1`. */
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
