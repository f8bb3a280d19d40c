import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import grpc from "@grpc/grpc-js";
import { onTestFinished } from "vitest";
import {
  HealthCheckRequestSchema,
  HealthCheckResponseSchema,
  HealthCheckResponse_ServingStatus as Status,
} from "../../src/gen/grpc/health/v1/health_pb.ts";

export type HealthAnswer = keyof typeof Status | "NOT_FOUND" | "UNREACHABLE";

/** Sends one call without a key, for the whole server or one service, like `grpc_health_probe` and the kubelet. */
export function createHealth(address: string) {
  const client = new grpc.Client(address.replace("http://", ""), grpc.credentials.createInsecure());
  onTestFinished(() => client.close());
  return {
    check: (service: string): Promise<HealthAnswer> =>
      new Promise((resolve, reject) => {
        client.makeUnaryRequest(
          "/grpc.health.v1.Health/Check",
          (name: string) =>
            Buffer.from(toBinary(HealthCheckRequestSchema, create(HealthCheckRequestSchema, { service: name }))),
          (bytes: Buffer) => fromBinary(HealthCheckResponseSchema, bytes).status,
          service,
          new grpc.Metadata(),
          { deadline: Date.now() + 3_000 },
          (error, status) => {
            if (error === null) resolve(nameOf(status));
            else if (error.code === grpc.status.NOT_FOUND) resolve("NOT_FOUND");
            else if (error.code === grpc.status.UNAVAILABLE) resolve("UNREACHABLE");
            else reject(error);
          },
        );
      }),
  };
}

const names = new Map<number, keyof typeof Status>(
  Object.entries(Status).map(([name, value]) => [value, name as keyof typeof Status]),
);
const nameOf = (status: Status | undefined): HealthAnswer => names.get(status ?? Status.UNKNOWN) ?? "UNKNOWN";
