import type { DescMessage, Message } from "@bufbuild/protobuf";
import type { Interceptor } from "@connectrpc/connect";
import { Fault } from "../../base/fault.ts";
import { checkRules } from "../../base/proto-rules.ts";
import { findUnsayable } from "./representable.ts";

/** Checks a message by the rules in the proto; throws the mistakes. */
export type RequireValid = (schema: DescMessage, message: Message) => void;

export const requireValid: RequireValid = (schema, message) => {
  const result = checkRules(schema, message);
  if (result.kind === "error") throw new Fault("internal", "the request could not be checked", { cause: result.error });
  const violations = result.kind === "valid" ? [] : result.violations;
  const mistakes = [
    ...violations.map((one) => ({ path: one.field.map(pathStep), message: one.message })),
    ...findUnsayable(schema, message),
  ];
  if (mistakes.length > 0) throw new Fault("invalid_body", "the request is not valid", { mistakes });
};

/** Checks every request before its method runs. */
export const validateRequests =
  (requireValid: RequireValid): Interceptor =>
  (next) =>
  (request) => {
    if (!request.stream) {
      requireValid(request.method.input, request.message);
      return next(request);
    }
    const { message, method } = request;
    async function* checked() {
      for await (const one of message) {
        requireValid(method.input, one);
        yield one;
      }
    }
    return next({ ...request, message: checked() });
  };

interface PathStep {
  readonly kind: string;
  readonly name?: string;
  readonly index?: number;
  readonly key?: unknown;
}

function pathStep(step: PathStep): string {
  if (step.kind === "list_sub") return String(step.index);
  if (step.kind === "map_sub") return String(step.key);
  return step.name ?? step.kind;
}
