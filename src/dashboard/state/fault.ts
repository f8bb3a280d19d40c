import { Code, ConnectError } from "@connectrpc/connect";
import { BadRequestSchema, ErrorInfoSchema, HelpSchema } from "../../gen/google/rpc/error_details_pb.ts";

/** What a page says about a call that failed. */
export interface CallFault {
  /** The code of the error catalog, such as `unknown_connection`; empty if the call did not reach Latchkey. */
  readonly code: string;
  readonly message: string;
  readonly hint?: string;
  /** The page of the catalog. */
  readonly docUrl?: string;
  /** Messages by field path, for forms. */
  readonly fields: Readonly<Record<string, string>>;
  /** Values that belong to the code, such as `redirect_uri`. */
  readonly values: Readonly<Record<string, string>>;
  readonly isRetryable: boolean;
}

const sentence = (text: string) =>
  (/[.!?]$/.test(text) ? text : `${text}.`).replace(/^./, (first) => first.toUpperCase());

export function faultOf(error: unknown): CallFault {
  const fault = ConnectError.from(error);
  const [info] = fault.findDetails(ErrorInfoSchema);
  if (info === undefined) {
    const isUnreachable = fault.code === Code.Unknown || fault.code === Code.Unavailable;
    const message = isUnreachable ? "Latchkey does not answer. Check that it is running." : sentence(fault.rawMessage);
    return { code: "", message, fields: {}, values: {}, isRetryable: isUnreachable };
  }
  const [help] = fault.findDetails(HelpSchema);
  const url = help?.links[0]?.url;
  const hint = info.metadata["hint"];
  const fields = fault
    .findDetails(BadRequestSchema)
    .flatMap(({ fieldViolations }) => fieldViolations.map(({ field, description }) => [field, description] as const));
  return {
    code: info.reason,
    message: sentence(fault.rawMessage),
    ...(hint !== undefined && { hint: sentence(hint) }),
    ...(url !== undefined && /^https?:/.test(url) && { docUrl: url }),
    fields: Object.fromEntries(fields),
    values: info.metadata,
    isRetryable: fault.code === Code.Unavailable || fault.code === Code.Aborted,
  };
}

export const isAborted = (error: unknown): boolean => ConnectError.from(error).code === Code.Canceled;
