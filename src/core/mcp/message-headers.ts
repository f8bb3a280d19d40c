import type { RpcMessage } from "./message-scanner.ts";

/** A header that says something else than the message. Answered with the JSON-RPC error -32020. */
export class HeaderMismatch extends Error {
  override readonly name = "HeaderMismatch";
}

/** Headers that repeat parts of the message, so that gateways need not read it (MCP 2026-07-28). */
export interface MessageHeaders {
  readonly version: string | undefined;
  readonly method: string | undefined;
  /** Decoded. */
  readonly name: string | undefined;
}

/** The first version with these headers. Later ones sort after it. */
const firstWithHeaders = "2026-07-28";
const named: ReadonlyMap<string, "name" | "uri"> = new Map([
  ["tools/call", "name"],
  ["prompts/get", "name"],
  ["resources/read", "uri"],
]);

const isModern = (version: string | undefined): boolean =>
  version !== undefined && /^\d{4}-\d{2}-\d{2}$/.test(version) && version >= firstWithHeaders;

/** Throws `HeaderMismatch` for a header that is sent twice, or that holds something else than text. */
export function messageHeaders(rawHeaders: readonly string[]): MessageHeaders {
  const name = single(rawHeaders, "mcp-name");
  return {
    version: single(rawHeaders, "mcp-protocol-version"),
    method: single(rawHeaders, "mcp-method"),
    name: name === undefined ? undefined : decodedName(name),
  };
}

function single(rawHeaders: readonly string[], wanted: string): string | undefined {
  let found: string | undefined;
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] ?? "";
    if (name.length !== wanted.length || name.toLowerCase() !== wanted) continue;
    if (found !== undefined) throw new HeaderMismatch(`the header ${wanted} must be sent once`);
    found = rawHeaders[i + 1] ?? "";
    if (!/^[\x20-\x7e]*$/.test(found)) throw new HeaderMismatch(`the header ${wanted} must be plain ASCII`);
  }
  return found;
}

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

function decodedName(value: string): string {
  const [, encoded] = /^=\?base64\?(.*)\?=$/.exec(value) ?? [];
  if (encoded === undefined) return value;
  const bytes = Buffer.from(encoded, "base64");
  if (bytes.toString("base64") !== encoded) throw new HeaderMismatch("the header mcp-name must be valid Base64");
  try {
    return utf8.decode(bytes);
  } catch {
    throw new HeaderMismatch("the header mcp-name must be UTF-8 in Base64");
  }
}

/** Compares the headers with the message, of either era. Throws `HeaderMismatch`. */
export function checkMessageHeaders(headers: MessageHeaders, message: RpcMessage): void {
  const { method } = message;
  const needsHeaders = isModern(headers.version) || isModern(message.version);
  if (needsHeaders && headers.version === undefined) throw missing("mcp-protocol-version");
  if (message.version !== undefined && headers.version !== undefined && message.version !== headers.version) {
    throw new HeaderMismatch("the header mcp-protocol-version must equal the version in the message");
  }
  if (headers.method !== undefined && headers.method !== method) {
    throw new HeaderMismatch("the header mcp-method must equal `method` of the message");
  }
  const isRequest = method !== undefined && message.id !== "null";
  if (needsHeaders && isRequest && headers.method === undefined) throw missing("mcp-method");
  const place = method === undefined ? undefined : named.get(method);
  const name = place === undefined ? undefined : message[place];
  if (headers.name !== undefined && headers.name !== name) {
    throw new HeaderMismatch(`the header mcp-name must equal \`params.${place ?? "name"}\` of the message`);
  }
  if (needsHeaders && isRequest && place !== undefined && headers.name === undefined) throw missing("mcp-name");
}

const missing = (header: string) => new HeaderMismatch(`the header ${header} is required`);
