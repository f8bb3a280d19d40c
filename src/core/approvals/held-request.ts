import { createHash } from "node:crypto";
import { create } from "@bufbuild/protobuf";
import { lowerCase } from "../../base/http/field-name.ts";
import { type ApprovalContent, ApprovalContentSchema } from "../../gen/latchkey/v1/approval_pb.ts";

/** A request that a policy holds, exactly as it will be sent, but for the credentials. */
export interface HeldRequest {
  readonly environment: string;
  readonly integration: string;
  readonly connection: string;
  /** Name of the further token that it uses; empty: the main one. */
  readonly token: string;
  /** Digest of the user whose verified token it acts with; undefined: none. */
  readonly subject?: string | undefined;
  readonly method: string;
  /** With path and query. */
  readonly url: string;
  /** Headers of the caller that are sent: name, value, name, value. */
  readonly headers: readonly string[];
  readonly body: Uint8Array;
  /** The part of the body that is compared; undefined: all of it. */
  readonly comparedBody?: Uint8Array | undefined;
}

/** Headers that differ in each attempt, and change nothing that a provider does. */
const volatile: ReadonlySet<string> = new Set(["traceparent", "tracestate", "sec-websocket-key"]);

/** Returns the headers that are compared and shown, by name. HTTP gives no meaning to the order of different names. */
function headerPairs(headers: readonly string[]): (readonly [name: string, value: string])[] {
  const pairs: (readonly [string, string])[] = [];
  for (let i = 0; i < headers.length; i += 2) {
    const name = lowerCase(headers[i] ?? "");
    if (!volatile.has(name)) pairs.push([name, headers[i + 1] ?? ""]);
  }
  return pairs.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
}

/** Returns the SHA-256 of a request in hex. Requests that differ in one byte have different ones. */
export function digestOfRequest(request: HeldRequest): string {
  const { environment, integration, connection, token, subject, method, url, headers, body } = request;
  const { comparedBody = body } = request;
  const subjects = subject === undefined ? [] : [subject];
  // JSON keeps the parts apart: no text can be read as two parts.
  const target = [environment, integration, connection, token, method, url];
  const head = JSON.stringify([1, ...target, headerPairs(headers), ...subjects]);
  return createHash("sha256").update(`${head}\n`).update(comparedBody).digest("hex");
}

const maxShownBody = 64 * 1_024;
const maxShownValue = 2_048;
const maxShownHeaders = 200;

/** Returns what is shown of a request. `hide` replaces secrets of the connection. */
export const shownContent = ({ headers, body }: HeldRequest, hide: (text: string) => string): ApprovalContent =>
  create(ApprovalContentSchema, {
    headers: headerPairs(headers)
      .slice(0, maxShownHeaders)
      .map(([name, value]) => ({ name, value: hide(value).slice(0, maxShownValue) })),
    // One character a byte: hides secrets in any encoding that keeps ASCII.
    body: Buffer.from(hide(Buffer.from(body).toString("latin1")).slice(0, maxShownBody), "latin1"),
    bodySize: BigInt(body.length),
  });
