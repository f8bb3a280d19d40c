import type { Command } from "commander";
import {
  Health,
  HealthCheckResponse_ServingStatus,
  HealthCheckResponseSchema,
} from "../../gen/grpc/health/v1/health_pb.ts";
import type { Act } from "../session.ts";
import { exitCodes } from "../terminal/exit-codes.ts";

/** Adds `health`: reports whether the sidecar accepts requests. Needs no key. */
export function addHealth(program: Command, act: Act): void {
  program
    .command("health")
    .argument("[service]", "for example latchkey.v1.ConnectionService (default: the whole process)")
    .summary("check whether Latchkey is ready; exit code 1 if not")
    .action(
      act(async ({ client, output }, service?: string) => {
        const answer = await client(Health).check({ service: service ?? "" });
        const serving = answer.status === HealthCheckResponse_ServingStatus.SERVING;
        await output.done(HealthCheckResponseSchema, answer, serving ? "serving" : "not serving");
        return serving ? exitCodes.ok : exitCodes.failed;
      }),
    );
}
