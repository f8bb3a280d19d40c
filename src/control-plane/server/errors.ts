import { create, type DescMessage } from "@bufbuild/protobuf";
import { durationFromMs } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError } from "@connectrpc/connect";
import type { Fault, FaultCode } from "../../base/fault.ts";
import { docUrlOf } from "../../base/fault-docs.ts";
import { scriptErrorMessage } from "../../core/scripts/script-error-message.ts";
import {
  BadRequestSchema,
  ErrorInfoSchema,
  HelpSchema,
  RetryInfoSchema,
} from "../../gen/google/rpc/error_details_pb.ts";
import { type Problem, ProblemSchema } from "../../gen/latchkey/v1/problem_pb.ts";
import { ScriptErrorSchema } from "../../gen/latchkey/v1/sync_pb.ts";
import { mistakeInJson } from "./json-mistake.ts";

const errorInfo = (reason: FaultCode, metadata: Readonly<Record<string, string>> = {}) => ({
  desc: ErrorInfoSchema,
  value: { reason, domain: "latchkey", metadata: { ...metadata } },
});

const help = (reason: FaultCode) => ({
  desc: HelpSchema,
  value: { links: [{ description: `what ${reason} means and what to do`, url: docUrlOf(reason) }] },
});

/** Details are sent in a header, in base64: clients accept at least 8 KiB of headers. */
const maxDetailBytes = 4 * 1024;

/** Converts a fault for gRPC and Connect: its code becomes `ErrorInfo.reason`, its mistakes `BadRequest`. */
export function connectErrorOf(fault: Fault): ConnectError {
  const violations = fault.mistakes.map(({ path, message }) => ({ field: path.join("."), description: message }));
  return new ConnectError(
    fault.message,
    Code[fault.rpc],
    { "latchkey-error": fault.code },
    [
      errorInfo(fault.code, fault.hint === undefined ? fault.metadata : { ...fault.metadata, hint: fault.hint }),
      help(fault.code),
      ...(fault.script === undefined
        ? []
        : [{ desc: ScriptErrorSchema, value: scriptErrorMessage(fault.script, maxDetailBytes) }]),
      ...(violations.length === 0 ? [] : [{ desc: BadRequestSchema, value: { fieldViolations: violations } }]),
      ...(fault.retryAfterSeconds === undefined
        ? []
        : [{ desc: RetryInfoSchema, value: { retryDelay: durationFromMs(fault.retryAfterSeconds * 1_000) } }]),
    ],
    fault.cause,
  );
}

const reasons: Partial<Record<Code, FaultCode>> = {
  [Code.InvalidArgument]: "invalid_body",
  [Code.NotFound]: "not_found",
  [Code.Unimplemented]: "not_implemented",
  [Code.ResourceExhausted]: "payload_too_large",
  [Code.DeadlineExceeded]: "request_timeout",
  [Code.Internal]: "malformed_request",
};

/**
 * Adds our error names to the protocol library's own errors, such as for a message that does not parse. Changes the
 * error in place, because the library writes it directly.
 */
export function nameError(error: ConnectError, input: DescMessage): void {
  if (error.details.length > 0) return;
  // The library reports an unparsable message as a server error, but the mistake is the caller's.
  if (error.rawMessage.startsWith("parse binary: ")) Object.assign(error, { code: Code.InvalidArgument });
  const reason = reasons[error.code];
  if (reason === undefined) return;
  const mistake = error.code === Code.InvalidArgument ? mistakeInJson(error.rawMessage, input) : undefined;
  if (mistake !== undefined) {
    const { message, path, hint } = mistake;
    Object.assign(error, { rawMessage: message, message: `[invalid_argument] ${message}` });
    const fieldViolations = [{ field: path, description: message }];
    error.details.push(errorInfo(reason, hint === undefined ? {} : { hint }), help(reason), {
      desc: BadRequestSchema,
      value: { fieldViolations },
    });
  } else error.details.push(errorInfo(reason), help(reason));
  error.metadata.set("latchkey-error", reason);
}

/** Converts a fault to the status of a batch item. */
export const problemOf = ({ code, message, mistakes }: Fault): Problem =>
  create(ProblemSchema, {
    code,
    message,
    violations: mistakes.map((one) => ({ path: one.path.join("."), message: one.message })),
  });
