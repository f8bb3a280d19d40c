import { lowerCase } from "../../base/http/field-name.ts";
import { incomingFields, incomingLines } from "../../core/outgoing/incoming-fields.ts";
import type { ResponseHead } from "../../relay/http1/response-head.ts";
import type { CallContext, ProviderCall } from "./provider-call.ts";
import { ProviderLinks } from "./provider-links.ts";

type AnsweredCall = Pick<ProviderCall, "live" | "state" | "address" | "proxied" | "options" | "binding">;

/** Returns the headers for the caller: those of the provider's that may pass, and Latchkey's own. */
export function callerFields(
  call: AnsweredCall,
  context: CallContext,
  fields: readonly string[],
  isHttp2?: boolean,
): string[] {
  return incomingFields({
    fields,
    links: new ProviderLinks(call, context),
    state: call.state,
    keepsSetCookie: call.live.integration.keepSetCookie,
    isHttp2,
  });
}

/** Does the same for the unchanged lines of a head and its notable headers. */
export function callerLines(
  call: AnsweredCall,
  context: CallContext,
  { lines, notable, notableAt }: NotableLines,
): string {
  return incomingLines({
    lines,
    notable,
    notableAt,
    links: new ProviderLinks(call, context),
    state: call.state,
    keepsSetCookie: call.live.integration.keepSetCookie,
  });
}

type NotableLines = Required<Pick<ResponseHead, "notable" | "notableAt">> & { readonly lines: string };

/** Returns the headers of an informational response, with its links rewritten. */
export function informationalFields(call: AnsweredCall, context: CallContext, fields: readonly string[]): string[] {
  const links = new ProviderLinks(call, context);
  return fields.map((value, i) =>
    i % 2 === 1 && lowerCase(fields[i - 1] ?? "") === "link" ? links.links(value) : value,
  );
}

/** An event stream has no length; other responses skip the check of the type. */
export function isEventStream(head: ResponseHead): boolean {
  const { framing, lines } = head;
  if (typeof framing === "number" || framing === "none") return false;
  if (lines !== undefined && !/\/event-stream/i.test(lines)) return false;
  const { fields } = head;
  const at = fields.findIndex((name, i) => i % 2 === 0 && name.length === 12 && name.toLowerCase() === "content-type");
  return at >= 0 && /^text\/event-stream\b/i.test(fields[at + 1] ?? "");
}

/** Writes name, value, name, value as header lines. */
export function headerLines(fields: readonly string[]): string {
  let lines = "";
  for (let i = 0; i < fields.length; i += 2) lines += `${fields[i]}: ${fields[i + 1]}\r\n`;
  return lines;
}

const asItIs = (value: string): string => value;
/** Headers of every response; most responses get no others. */
const addedFields = incomingFields({
  fields: [],
  links: { reference: asItIs, links: asItIs, refresh: asItIs },
  keepsSetCookie: false,
});
export const addedLines = headerLines(addedFields);
