import { toJson } from "@bufbuild/protobuf";
import { ValueSchema } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError } from "@connectrpc/connect";
import {
  BadRequestSchema,
  ErrorInfoSchema,
  HelpSchema,
  RetryInfoSchema,
} from "../../gen/google/rpc/error_details_pb.ts";
import { ScriptErrorSchema } from "../../gen/latchkey/v1/sync_pb.ts";
import { CommandError } from "./command-error.ts";
import { escapeControl, escapeControlInLines } from "./escape-control.ts";
import { exitCodes } from "./exit-codes.ts";
import { UsageMistake } from "./usage-mistake.ts";
import { type WrongDoor, wordsForWrongDoor } from "./wrong-address.ts";

/** Why a command failed, for people. */
export interface CommandFailure {
  readonly exitCode: number;
  /** A fault code such as `unknown_connection`; absent if the mistake is on the client's side. */
  readonly code?: string;
  readonly message: string;
  readonly violations: readonly { readonly path: string; readonly message: string }[];
  /** Next steps if known, and other remarks. */
  readonly notes: readonly string[];
  /** What the caller probably meant. */
  readonly hint?: string | undefined;
  /** A page about the code. */
  readonly docUrl?: string | undefined;
}

/** Facts that the command knows and the error does not contain. */
interface FailureContext {
  /** Address that the command used for the control plane. */
  readonly address: string;
  /** The listener found there instead of the control plane, if known. */
  readonly wrongDoor?: WrongDoor | undefined;
  /** The user interrupted the command. */
  readonly interrupted: boolean;
}

/** Converts any thrown value to a Failure. */
export function describeFailure(thrown: unknown, { address, interrupted, wrongDoor }: FailureContext): CommandFailure {
  const nothingMore = { violations: [], notes: [] };
  if (thrown instanceof UsageMistake) return { exitCode: exitCodes.usage, message: thrown.message, ...nothingMore };
  if (thrown instanceof CommandError) {
    const { code, message, notes } = thrown;
    return { exitCode: exitCodes.failed, code, message, violations: [], notes };
  }
  if (interrupted) return { exitCode: exitCodes.failed, message: "interrupted", ...nothingMore };
  if (!(thrown instanceof ConnectError)) {
    const message = thrown instanceof Error ? thrown.message : "unknown error";
    return { exitCode: exitCodes.failed, message, ...nothingMore };
  }
  if (wrongDoor !== undefined) {
    const { message, note } = wordsForWrongDoor(wrongDoor, address);
    return { exitCode: exitCodes.failed, code: "unavailable", message, violations: [], notes: [note] };
  }
  const violations = thrown
    .findDetails(BadRequestSchema)
    .flatMap((details) =>
      details.fieldViolations.map(({ field, description }) => ({ path: field, message: description })),
    );
  return {
    exitCode: exitCodes.failed,
    ...wordsFor(thrown),
    violations,
    hint: thrown.findDetails(ErrorInfoSchema)[0]?.metadata["hint"],
    docUrl: thrown.findDetails(HelpSchema)[0]?.links[0]?.url,
    notes: [...scriptNotes(thrown), hintFor(thrown, address), logHint(thrown)].filter((note) => note !== undefined),
  };
}

/** Returns the error that a failed script threw. */
function scriptNotes(error: ConnectError): readonly string[] {
  return error.findDetails(ScriptErrorSchema).flatMap(({ code, payload, payloadOmitted, upstreamResponse, runId }) => {
    const status = upstreamResponse === undefined ? "" : ` (the provider answered ${upstreamResponse.status})`;
    if (payloadOmitted) return [`${code}${status}; the payload is too large to show here: use \`syncs run ${runId}\``];
    return [`${code}${status}${payload === undefined ? "" : `: ${JSON.stringify(toJson(ValueSchema, payload))}`}`];
  });
}

function wordsFor(error: ConnectError): Pick<CommandFailure, "code" | "message"> {
  if (unreachable(error)) return { code: "unavailable", message: "the control plane cannot be reached" };
  if (causesOf(error).some(({ code }) => code === "ERR_HTTP2_ERROR")) {
    return {
      code: "unavailable",
      message: "the server at this address does not speak HTTP/2, which the control plane requires",
    };
  }
  return { code: codeOf(error), message: error.rawMessage || "the call failed" };
}

/** Formats `latchkey: <message> (<code>)`, followed by indented lines with details and next steps. */
export function failureText({
  message,
  code,
  violations,
  notes,
  hint,
  docUrl,
}: Omit<CommandFailure, "exitCode">): string {
  const lines = [
    `latchkey: ${code === undefined ? message : withCode(message, code)}`,
    ...violations.map(({ path, message: wrong }) => `  ${path === "" ? "" : `${path}: `}${wrong}`),
    ...[hint, ...notes, isAddress(docUrl) ? `see ${docUrl}` : undefined].flatMap((note) => (note ? [`  ${note}`] : [])),
  ];
  return lines.map((line) => `${escapeControl(line)}\n`).join("");
}

/** A server without a public URL names only the path. */
const isAddress = (url: string | undefined): boolean => url !== undefined && /^https?:\/\//.test(url);

/** Formats a failure as JSON, in the form of the HTTP API. */
export function failureJson(failure: Omit<CommandFailure, "exitCode">): string {
  const { message, code = "usage", violations, notes, hint, docUrl } = failure;
  const error = {
    code,
    message,
    hint,
    doc_url: docUrl,
    errors: violations.length === 0 ? undefined : violations,
    notes: notes.length === 0 ? undefined : notes,
  };
  return `${escapeControlInLines(JSON.stringify({ error }))}\n`;
}

/** Puts the code after the first sentence, before the list of existing names. */
function withCode(message: string, code: string): string {
  const [, first = message, known = ""] = /^(.*?)(\. (?:You have: |There are none).*)$/s.exec(message) ?? [];
  return `${first} (${code})${known}`;
}

/** Returns Latchkey's own code if it sent the response; intermediaries send only a gRPC code. */
export const codeOf = (error: ConnectError): string =>
  error.findDetails(ErrorInfoSchema)[0]?.reason || error.metadata.get("latchkey-error") || snakeCase(Code[error.code]);

const snakeCase = (name: string | undefined) => (name ?? "unknown").replace(/(?<=[a-z])[A-Z]/g, "_$&").toLowerCase();

function hintFor(error: ConnectError, address: string): string | undefined {
  if (wordsFor(error).code === "unavailable" && error.cause !== undefined) {
    return `is Latchkey running at ${address}? Set its address with --address or LATCHKEY_CONTROL`;
  }
  const wait = error.findDetails(RetryInfoSchema)[0]?.retryDelay?.seconds;
  if (wait !== undefined) return `try again in ${wait} s`;
  if (codeOf(error) === "conflict") return "the object has changed: read it again, then repeat your change";
  return hints[error.code];
}

/** Points to a log that tells more than the error. */
function logHint(error: ConnectError): string | undefined {
  const id = error.findDetails(ErrorInfoSchema)[0]?.metadata["log_id"];
  return id === undefined || id === "" ? undefined : `use \`latchkey logs ${id}\` to see what happened`;
}

const hints: Partial<Record<Code, string>> = {
  [Code.Unauthenticated]:
    "give a key with --key-file FILE or LATCHKEY_KEY; run in the folder of `latchkey dev`, commands use its ./.latchkey/admin-key",
  [Code.PermissionDenied]: "the key lacks a scope: `latchkey keys list` shows the scopes of each key",
  [Code.DeadlineExceeded]: "use --timeout to wait longer",
};

/** Reports whether the whole call was refused, rather than something in it. */
export const isRefusal = (thrown: unknown): boolean =>
  thrown instanceof ConnectError && (refusals.includes(thrown.code) || unreachable(thrown));

const refusals: readonly Code[] = [Code.Unauthenticated, Code.PermissionDenied, Code.Unimplemented];

const networkErrors = ["ECONNREFUSED", "ENOENT", "ENOTFOUND", "EAI_AGAIN", "EHOSTUNREACH", "ENETUNREACH", "ETIMEDOUT"];

/** Reports whether no connection was made: wrong name, port or socket. For a name, Node tries all addresses. */
const unreachable = (error: ConnectError): boolean =>
  causesOf(error).some((cause) => networkErrors.includes(cause.code ?? "") || cause instanceof AggregateError);

function causesOf(error: Error): readonly NodeJS.ErrnoException[] {
  return error.cause instanceof Error ? [error.cause, ...causesOf(error.cause)] : [];
}
