import type { ClientHttp2Session, OutgoingHttpHeaders } from "node:http2";
import type { Doorway } from "../peers/doorways.ts";
import { answerOf } from "./http2-call.ts";
import type { OddRequest } from "./odd-requests.ts";

/** What HTTP/2 does not have (RFC 9113, 8.2.2), or writes in another way. */
const ofConnections = /^(?:connection|keep-alive|upgrade|http2-settings|transfer-encoding|te|expect|content-length):/i;
const field = /^([!#$%&'*+.^_`|~\w-]+): ([^\0\r\n]*)$/;

/** Returns the fields of an odd request; undefined: HTTP/2 has no such request. */
function fieldsOf({ version, lines = [] }: OddRequest): OutgoingHttpHeaders | undefined {
  const pairs = lines.map((line) => field.exec(line));
  const names = pairs.map((pair) => pair?.[1]?.toLowerCase());
  const isPlain = pairs.every((pair) => pair !== null && !ofConnections.test(pair[0]));
  if (version !== undefined || !isPlain || new Set(names).size < names.length) return undefined;
  return Object.fromEntries(pairs.map((pair) => [pair?.[1]?.toLowerCase() ?? "", pair?.[2] ?? ""]));
}

export const isOverHttp2 = (request: OddRequest): boolean => fieldsOf(request) !== undefined;

/** Sends an odd request over HTTP/2, and returns what matters of its answer, without what differs on purpose. */
export async function oddOverHttp2(
  session: ClientHttp2Session,
  { target, host, headers }: Doorway,
  request: OddRequest,
): Promise<OddAnswer> {
  const { method = "GET", path = "/x" } = request;
  const stream = session.request(
    { ...headers, ...fieldsOf(request), ":method": method, ":path": target(path), ":authority": host },
    { endStream: true },
  );
  const { status, headers: answered, informational, trailers, body, code } = await answerOf(stream);
  const own = answered["latchkey-error"];
  const { date, ":status": _, link, ...fields } = answered;
  return {
    status,
    error: typeof own === "string" ? own : undefined,
    // A link of the provider leads to the way that it came by.
    whole: JSON.stringify(own === undefined ? [status, fields, informational, trailers, body, code] : [status, own]),
  };
}

export interface OddAnswer {
  readonly status: number;
  /** Latchkey's own code. */
  readonly error: string | undefined;
  readonly whole: string;
}
