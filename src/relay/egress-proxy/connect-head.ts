import { version } from "../../base/version.ts";

/** Limits the head of an answer to CONNECT. */
const maxHeadBytes = 16 * 1024;

export interface ConnectRequest {
  /** A name or an address. */
  readonly host: string;
  readonly port: number;
  readonly authorization: string | undefined;
}

export const connectTarget = ({ host, port }: Pick<ConnectRequest, "host" | "port">): string =>
  `${host.includes(":") ? `[${host}]` : host}:${port}`;

export function connectHead(request: ConnectRequest): string {
  const target = connectTarget(request);
  const { authorization } = request;
  const proof = authorization === undefined ? "" : `Proxy-Authorization: ${authorization}\r\n`;
  return `CONNECT ${target} HTTP/1.1\r\nHost: ${target}\r\nUser-Agent: latchkey/${version}\r\n${proof}\r\n`;
}

export interface ConnectAnswer {
  readonly status: number;
  /** Length of the head. What follows comes from the origin, if the status is a success. */
  readonly headBytes: number;
}

/** Reads an answer to CONNECT; undefined: it is incomplete. */
export function readConnectAnswer(bytes: Buffer): ConnectAnswer | "malformed" | undefined {
  const end = bytes.indexOf("\r\n\r\n");
  const head = bytes.toString("latin1", 0, end === -1 ? Math.min(bytes.length, maxHeadBytes) : end);
  if (!mayBeginAnswer(head)) return "malformed";
  if (end === -1) return bytes.length >= maxHeadBytes ? "malformed" : undefined;
  if (end > maxHeadBytes) return "malformed";
  const [first = "", ...fields] = head.split("\r\n");
  const [, status] = /^HTTP\/1\.[01] ([2-5]\d\d)(?: [\t\x20-\x7e\x80-\xff]*)?$/.exec(first) ?? [];
  // A bare line feed or a folded line could be read as a longer head, and the rest would not be the origin's.
  const isClean = fields.every((line) => /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+:[\t\x20-\x7e\x80-\xff]*$/.test(line));
  return status === undefined || !isClean ? "malformed" : { status: Number(status), headBytes: end + 4 };
}

const begin = "HTTP/1.";

const mayBeginAnswer = (text: string): boolean => text.startsWith(begin) || begin.startsWith(text);
