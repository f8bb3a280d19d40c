import { Buffer } from "node:buffer";
import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import type { Broker } from "../../broker/broker.ts";
import type { ProxyAnswer, SendToProvider } from "../../broker/traffic/send-to-provider.ts";
import { requireLiveGrant, withConnection } from "./connection-choice.ts";
import { defaultAnswerBytes, maxAnswerBytes, requestMethods } from "./own-tools.ts";
import { argumentMistake, type CalledTool, ToolArguments, type ToolResult } from "./tool-call.ts";

interface RequestServices extends Pick<Broker, "listing" | "connections"> {
  readonly sendToProvider: SendToProvider;
}

/** Sends a request to a provider, held to the same rules as one to `/proxy`. */
export async function sendProviderRequest(services: RequestServices, call: CalledTool): Promise<ToolResult> {
  const given = new ToolArguments(call.given);
  const integration = given.requiredText("integration");
  const asked = given.text("connection");
  const method = methodOf(given);
  const path = pathOf(given);
  const headers = headersOf(given.object("headers"));
  const { body, type } = bodyOf(given.value("body"));
  const maxBytes = given.integer("max_bytes", { max: maxAnswerBytes, fallback: defaultAnswerBytes });
  given.end();
  const { subjectToken } = call.caller;
  const hasType = headers.some((name, i) => i % 2 === 0 && name.toLowerCase() === "content-type");
  return withConnection(services, { call, integration, asked }, async (ref) => {
    const { approval } = call;
    const answer = await services.sendToProvider({
      caller: call.caller.caller,
      ref,
      method,
      path,
      headers: [
        ...headers,
        ...(type === undefined || hasType ? [] : ["content-type", type]),
        ...(subjectToken === undefined ? [] : ["latchkey-subject-token", subjectToken]),
        ...(approval === "" ? [] : ["latchkey-approval", approval]),
      ],
      body,
      signal: call.caller.leaving(),
      message: call.asking(integration),
    });
    if (answer.fault !== undefined) throw answer.fault;
    if (answer.status === unauthorized) await requireLiveGrant(services.connections, ref);
    return resultOf(answer, maxBytes);
  });
}

/** A provider that has revoked a grant says so with the next request; the refresh after it fails. */
const unauthorized = 401;

function methodOf(given: ToolArguments): string {
  const asked = given.text("method") ?? "GET";
  const method = requestMethods.find((one) => one === asked.toUpperCase());
  if (method === undefined) throw argumentMistake("method", `must be one of ${requestMethods.join(", ")}`);
  return method;
}

function pathOf(given: ToolArguments): string {
  const path = given.requiredText("path");
  if (!path.startsWith("/") || path.startsWith("//")) {
    throw argumentMistake("path", "must be a path that begins with one slash, without a host");
  }
  if (path.includes("#")) throw argumentMistake("path", "must have no fragment (#)");
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(given.object("query"))) {
    for (const one of Array.isArray(value) ? value : [value]) parameters.append(name, parameterOf(one));
  }
  if (parameters.size === 0) return path;
  return `${path}${path.includes("?") ? "&" : "?"}${parameters}`;
}

function parameterOf(value: JsonValue): string {
  if (typeof value === "object")
    throw argumentMistake("query", "must hold text, numbers, true or false, or lists of them");
  return String(value);
}

function headersOf(given: JsonObject): string[] {
  return Object.entries(given).flatMap(([name, value]) => {
    if (typeof value !== "string") throw argumentMistake("headers", "must hold texts");
    return [name, Buffer.from(value).toString("latin1")];
  });
}

function bodyOf(value: JsonValue | undefined): { readonly body: Uint8Array; readonly type: string | undefined } {
  if (value === undefined) return { body: new Uint8Array(), type: undefined };
  if (typeof value === "string") return { body: Buffer.from(value), type: "text/plain; charset=utf-8" };
  return { body: Buffer.from(JSON.stringify(value)), type: "application/json" };
}

/** Headers that help a model to go on: kinds, pages, limits. Others would fill its context. */
const shownHeaders =
  /^(?:content-type|link|location|etag|last-modified|retry-after|x-request-id|.*(?:ratelimit|rate-limit|page|total|next).*)$/;

function resultOf({ status, headers, body, isTruncated }: ProxyAnswer, maxBytes: number): ToolResult {
  const shown: JsonObject = {};
  for (let i = 0; i < headers.length; i += 2) {
    const name = (headers[i] ?? "").toLowerCase();
    if (shownHeaders.test(name)) shown[name] = Buffer.from(headers[i + 1] ?? "", "latin1").toString();
  }
  const isCut = isTruncated || body.length > maxBytes;
  const value = { status, headers: shown, ...contentOf(body.subarray(0, maxBytes), isCut) };
  return { value, ...(status >= 400 && { isError: true }) };
}

const utf8 = new TextDecoder("utf-8", { fatal: true });

function contentOf(bytes: Uint8Array, isCut: boolean): JsonObject {
  const cut: JsonObject = isCut ? { truncated: true } : {};
  if (bytes.length === 0) return cut;
  try {
    // A cut may split a character.
    const text = isCut
      ? Buffer.from(bytes)
          .toString()
          .replace(/\ufffd$/, "")
      : utf8.decode(bytes);
    return { body: isCut ? text : (parsed(text) ?? text), ...cut };
  } catch {
    return { body_base64: Buffer.from(bytes).toString("base64"), ...cut };
  }
}

function parsed(text: string): JsonValue | undefined {
  try {
    return JSON.parse(text) as JsonValue;
  } catch {
    return undefined;
  }
}
