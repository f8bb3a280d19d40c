import { type Call, mediaType, refuse } from "../call.ts";
import type { FileContent } from "./file-store.ts";

/** `uploadType=media`: the body is the file. `multipart`: a JSON description, then the file (RFC 2387). */
export function uploadedFile(call: Call): FileContent {
  const { query, body } = call;
  if (query.get("uploadType") === "multipart") return multipartFile(call);
  return { ...fileDescription({ name: query.get("name"), mimeType: mediaType(call) }), content: body };
}

/** Name and media type, with defaults for missing and malformed ones. */
export function fileDescription({
  name,
  mimeType,
}: Readonly<Record<string, unknown>>): Pick<FileContent, "name" | "mimeType"> {
  return {
    name: typeof name === "string" ? name.slice(0, 255) : "Untitled",
    mimeType:
      typeof mimeType === "string" && /^[\w.+-]+\/[\w.+-]+$/.test(mimeType) ? mimeType : "application/octet-stream",
  };
}

function multipartFile({ headers, body }: Call): FileContent {
  const [, quoted, bare] = /;\s*boundary=(?:"([^"]+)"|([^\s;]+))/i.exec(headers["content-type"] ?? "") ?? [];
  const boundary = quoted ?? bare;
  const parts = boundary === undefined ? [] : partsOf(body, boundary);
  const [description, file] = parts;
  if (description === undefined || file === undefined) {
    throw refuse(400, "badContent", "A multipart upload must have two parts: a description and the file.");
  }
  let described: unknown;
  try {
    described = JSON.parse(description.content.toString("utf8"));
  } catch {
    throw refuse(400, "parseError", "The first part must be JSON.");
  }
  const { name, mimeType } = Object(described) as Record<string, unknown>;
  return { ...fileDescription({ name, mimeType: mimeType ?? file.type }), content: file.content };
}

interface BodyPart {
  readonly type: string;
  readonly content: Buffer;
}

function partsOf(body: Buffer, boundary: string): readonly BodyPart[] {
  const delimiter = Buffer.from(`\r\n--${boundary}`);
  // The first delimiter may be at the start of the body.
  const whole = Buffer.concat([Buffer.from("\r\n"), body]);
  const parts: BodyPart[] = [];
  for (let at = whole.indexOf(delimiter); at !== -1; ) {
    const next = whole.indexOf(delimiter, at + delimiter.length);
    if (next === -1) return parts;
    const part = whole.subarray(at + delimiter.length, next);
    const end = part.indexOf("\r\n\r\n");
    if (end !== -1) {
      const [, type = ""] = /content-type:\s*([^;\r\n]+)/i.exec(part.subarray(0, end).toString("latin1")) ?? [];
      parts.push({ type: type.trim(), content: Buffer.from(part.subarray(end + 4)) });
    }
    at = next;
  }
  return parts;
}
