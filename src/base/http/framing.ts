import { type IncomingMessage, METHODS } from "node:http";
import { lowerCase } from "./field-name.ts";

/** The part of an HTTP/1 head that says where the request ends. */
export type FramedHead = Pick<IncomingMessage, "method" | "httpVersion" | "headers"> & {
  readonly rawHeaders: readonly string[];
};

/** Node's parser also accepts RTSP, and reports RTSP as HTTP/1.0. */
const methods: ReadonlySet<string> = new Set(METHODS);

export const mistakeInMethod = (method: string): string | undefined =>
  methods.has(method) ? undefined : "the method is of another protocol";

/**
 * Rejects HTTP/1 requests that `node:http` accepts and that another parser could read differently: HTTP/0.9, which is
 * any request line that ends early, and bodies with two lengths or codings. Returns the reason, or undefined.
 */
export function mistakeInHttp1(head: FramedHead): string | undefined {
  const { rawHeaders, headers, httpVersion, method = "" } = head;
  const ofMethod = mistakeInMethod(method);
  if (ofMethod !== undefined) return ofMethod;
  if (httpVersion !== "1.1" && httpVersion !== "1.0") return "the request must be HTTP/1.1 or HTTP/1.0";
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
