import type { Mistake } from "../base/fault.ts";
import type { RequestTemplate } from "../gen/latchkey/v1/provider_pb.ts";
import { checkRequestHeaders } from "./check-filled-fields.ts";
import { mistake } from "./mistake.ts";

/** For a request that reads: it may leave out its method, and is then GET. */
export const isRead = { isRead: true };

export function checkRequest(request: RequestTemplate | undefined, path: string, { isRead = false } = {}): Mistake[] {
  const { method = "", path: target = "", body = "", format = "", headers = {} } = request ?? {};
  return [
    ...(/^[A-Z]+$/.test(method) || (isRead && method === "")
      ? []
      : [mistake(`${path}.method`, "must be an HTTP method in upper case")]),
    ...(target.startsWith("/") && !target.startsWith("//")
      ? []
      : [mistake(`${path}.path`, "must begin with exactly one slash")]),
    ...(body === "" || (format === "form" ? isForm(body) : isJson(body))
      ? []
      : [mistake(`${path}.body`, format === "form" ? "must be a form: name=value, joined by &" : "must be JSON")]),
    ...checkRequestHeaders({ headers }, path),
  ];
}

const isForm = (text: string): boolean => text.split("&").every((pair) => /^[^=\s]+=[^\s]*$/.test(pair));

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    // The author of the description has to find the error.
    return false;
  }
}
