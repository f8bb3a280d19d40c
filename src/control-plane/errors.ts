import { create } from "@bufbuild/protobuf";
import { durationFromMs } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError } from "@connectrpc/connect";
import type { Fault } from "../base/fault.ts";
import { BadRequestSchema, ErrorInfoSchema, RetryInfoSchema } from "../gen/google/rpc/error_details_pb.ts";
import { type Problem, ProblemSchema } from "../gen/latchkey/v1/problem_pb.ts";

/** A fault as gRPC and Connect say it: the code as `ErrorInfo.reason`, mistakes as `BadRequest`. */
export function connectErrorOf(fault: Fault): ConnectError {
  const info = { reason: fault.code, domain: "latchkey", metadata: { ...fault.metadata } };
  const violations = fault.mistakes.map(({ path, message }) => ({ field: path.join("."), description: message }));
  return new ConnectError(
    fault.message,
    Code[fault.rpc],
    { "latchkey-error": fault.code },
    [
      { desc: ErrorInfoSchema, value: info },
      ...(violations.length === 0 ? [] : [{ desc: BadRequestSchema, value: { fieldViolations: violations } }]),
      ...(fault.retryAfterSeconds === undefined
        ? []
        : [{ desc: RetryInfoSchema, value: { retryDelay: durationFromMs(fault.retryAfterSeconds * 1_000) } }]),
    ],
    fault.cause,
  );
}

/** A fault as the status of one item of a batch. */
export const problemOf = ({ code, message, mistakes }: Fault): Problem =>
  create(ProblemSchema, {
    code,
    message,
    violations: mistakes.map((one) => ({ path: one.path.join("."), message: one.message })),
  });
