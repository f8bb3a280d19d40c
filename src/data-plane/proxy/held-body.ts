import type { Attachment } from "../../auth/attachment.ts";
import type { FrontHead } from "../../relay/client/incoming.ts";
import { isHeld, needsBody } from "./admission.ts";
import type { ProviderCall } from "./provider-call.ts";

/** Limits a body that must be read before sending: to be signed, repeated, or judged by policies. */
export const maxHeldBytes = 1024 * 1024;

/** Returns whether the body must be read before sending. */
export function needsContent(request: FrontHead, { proxied, attachment, options, verdict }: ProviderCall): boolean {
  if (proxied.body === "none") return false;
  if (needsBody(verdict) || isHeld(verdict)) return true;
  if (attachment.kind === "signing" && isSigned(attachment, request)) return true;
  // Only a body known to be small is kept for a retry.
  return options.retries > 0 && proxied.body === "length" && Number(request.headers["content-length"]) <= maxHeldBytes;
}

function isSigned({ needs }: Extract<Attachment, { kind: "signing" }>, { headers }: FrontHead): boolean {
  if (needs !== "form") return needs === "body";
  const [type = ""] = (headers["content-type"] ?? "").split(";");
  return type.trim().toLowerCase() === "application/x-www-form-urlencoded";
}

/** Sets the length of a body that was read in full. */
export function withLength(rawHeaders: readonly string[], content: Uint8Array): readonly string[] {
  const kept = rawHeaders.filter((_, i) => (rawHeaders[i - (i % 2)] ?? "").toLowerCase() !== "content-length");
  return [...kept, "Content-Length", String(content.length)];
}
