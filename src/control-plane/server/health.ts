import { Code, ConnectError, type ServiceImpl } from "@connectrpc/connect";
import type { Readiness } from "../../base/readiness.ts";
import { type Health, HealthCheckResponse_ServingStatus as Status } from "../../gen/grpc/health/v1/health_pb.ts";

/** `grpc.health.v1`, for Kubernetes and load balancers. The whole server and each service have the same status. */
export function healthService(readiness: Readiness, services: ReadonlySet<string>): ServiceImpl<typeof Health> {
  const isKnown = (service: string) => service === "" || services.has(service);
  const status = () => (readiness.phase() === "ready" ? Status.SERVING : Status.NOT_SERVING);
  return {
    check({ service }) {
      if (!isKnown(service)) throw new ConnectError("unknown service", Code.NotFound);
      return { status: status() };
    },
    list: () => ({ statuses: Object.fromEntries(["", ...services].map((name) => [name, { status: status() }])) }),
    async *watch({ service }, { signal }) {
      let wake = () => {};
      const unwatch = readiness.watch(() => wake());
      const stop = () => wake();
      signal.addEventListener("abort", stop);
      let told: Status | undefined;
      try {
        for (;;) {
          const now = isKnown(service) ? status() : Status.SERVICE_UNKNOWN;
          if (now !== told) {
            told = now;
            yield { status: now };
            continue;
          }
          // Checked only after sending: the cause of the abort may itself be a status to send, as when Latchkey drains.
          if (signal.aborted) return;
          await new Promise<void>((resolve) => {
            wake = resolve;
          });
        }
      } finally {
        signal.removeEventListener("abort", stop);
        unwatch();
      }
    },
  };
}
