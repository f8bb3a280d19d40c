import { type IncomingMessage, METHODS } from "node:http";
import { lowerCase } from "../base/field-name.ts";

/** Node's parser reads RTSP as well, and shows it as HTTP/1.0. */
const methods: ReadonlySet<string> = new Set(METHODS);

/** Of a head, what says where a request ends. */
export type Framed = Pick<IncomingMessage, "httpVersion" | "method"> & {
  readonly rawHeaders: readonly string[];
  readonly headers: Readonly<Record<string, unknown>>;
};

/**
 * What `node:http` lets pass and a relay must not: whatever the next parser on the way could read otherwise. Returns
 * why, or undefined.
 */
export function mistakeInFraming({ rawHeaders, headers, httpVersion, method = "" }: Framed): string | undefined {
  if (httpVersion !== "1.1" && httpVersion !== "1.0") return "the request must be HTTP/1.1 or HTTP/1.0";
  if (!methods.has(method)) return "the method is of another protocol";
  if (headers["transfer-encoding"] === undefined && headers["content-length"] === undefined) return undefined;
  let encodings = 0;
  let lengths = 0;
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = lowerCase(rawHeaders[i] ?? "");
    const value = rawHeaders[i + 1] ?? "";
    if (name === "transfer-encoding") {
      encodings += 1;
      if (value.toLowerCase() !== "chunked") return "the only transfer coding is chunked";
      if (httpVersion === "1.0") return "HTTP/1.0 has no transfer codings";
    } else if (name === "content-length") {
      lengths += 1;
      if (!/^(?:0|[1-9][0-9]{0,14})$/.test(value)) return "the content length must be a plain number";
    }
  }
  return encodings + lengths > 1 ? "the request must be framed once" : undefined;
}

/** How the body comes, and goes on. */
export function bodyOf({
  headers,
}: {
  readonly headers: Readonly<Record<string, unknown>>;
}): "none" | "length" | "chunked" {
  if (headers["transfer-encoding"] !== undefined) return "chunked";
  return (headers["content-length"] ?? "0") === "0" ? "none" : "length";
}
