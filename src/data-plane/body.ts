import type { IncomingMessage } from "node:http";
import { TextDecoder } from "node:util";
import type { JsonObject } from "@bufbuild/protobuf";
import { Fault } from "../base/fault.ts";
import { isObject } from "../core/json-fields.ts";

/**
 * Reads a JSON object, and no more of it than allowed. UTF-8 without a byte order mark (RFC 8259, section 8.1); of
 * a key that is there twice the last counts, as JSON.parse has it.
 */
export async function readJsonBody(request: IncomingMessage, maxBytes: number): Promise<JsonObject> {
  requireJson(request);
  const bytes = await readBytes(request, maxBytes);
  if (bytes.length === 0) throw new Fault("invalid_body", "a JSON object is required");
  let value: unknown;
  try {
    value = JSON.parse(new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes));
  } catch {
    // What JSON.parse says quotes the body, and a body may hold secrets.
    throw new Fault("invalid_json", "the body is not JSON in UTF-8");
  }
  if (!isObject(value)) throw new Fault("invalid_body", "the body must be a JSON object");
  return value;
}

function requireJson({ headers }: IncomingMessage): void {
  const [type = "", ...parameters] = (headers["content-type"] ?? "")
    .split(";")
    .map((part) => part.trim().toLowerCase());
  if (type !== "application/json" || parameters.some((one) => one !== "" && !/^charset="?utf-8"?$/.test(one))) {
    throw new Fault("unsupported_media_type", "the body must be application/json in UTF-8");
  }
  const encoding = headers["content-encoding"];
  if (encoding !== undefined && encoding !== "identity") {
    throw new Fault("unsupported_media_type", "the body must not be compressed");
  }
}

function readBytes(request: IncomingMessage, maxBytes: number): Promise<Buffer> {
  const tooLarge = () => new Fault("payload_too_large", `the body must have at most ${maxBytes} bytes`);
  if (Number(request.headers["content-length"] ?? 0) > maxBytes) return Promise.reject(tooLarge());
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let size = 0;
    const done = () => request.off("data", onData).off("end", onEnd).off("close", onClose).off("error", onClose);
    const onData = (chunk: Buffer) => {
      size += chunk.length;
      chunks.push(chunk);
      if (size <= maxBytes) return;
      done();
      request.pause();
      reject(tooLarge());
    };
    const onEnd = () => {
      done();
      resolve(Buffer.concat(chunks, size));
    };
    const onClose = () => {
      done();
      reject(new ClientGone());
    };
    request.on("data", onData).on("end", onEnd).on("close", onClose).on("error", onClose);
  });
}

/** The caller left before it had said everything. There is nobody to answer, and nothing to log. */
export class ClientGone extends Error {
  override readonly name = "ClientGone";
}
