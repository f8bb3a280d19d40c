import { byFieldName } from "../../base/http/field-name.ts";
import { plainFieldName } from "../outgoing/outgoing-fields.ts";

interface MethodRequest {
  readonly method: string;
  /** With its query. */
  readonly path: string;
  readonly rawHeaders: readonly string[];
}

/** Fields and parameters by which a client asks a server to take a request for one of another method. */
const overrideField = /^(?:x-http-method-override|x-http-method|x-method-override)$/;
const overrideParameter = /^(?:_method|\$httpmethod|x-http-method-override)$/i;
const shortestField = "x-http-method".length;
/** As the provider gets it: without the prefix of disguised fields, and servers may take an underscore for a dash. */
const isOverrideField = byFieldName((lower) => overrideField.test(plainFieldName(lower)));

const none: readonly string[] = [];

/** Returns the methods, in capitals, that the server is asked to take in place of the request's own. */
export function otherMethodsOf({ method, path, rawHeaders }: MethodRequest): readonly string[] {
  let found: string[] | undefined;
  const add = (value: string): void => {
    const wanted = value.trim().toUpperCase();
    if (wanted !== method) found = [...(found ?? []), wanted];
  };
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] ?? "";
    if (name.length < shortestField) continue;
    if (isOverrideField(name)) add(rawHeaders[i + 1] ?? "");
  }
  const at = path.indexOf("?");
  if (at === -1 || !/method|%/i.test(path.slice(at))) return found ?? none;
  // Some servers take a semicolon for an ampersand.
  const query = new URLSearchParams(path.slice(at).replaceAll(";", "&"));
  for (const [name, value] of query) if (overrideParameter.test(name)) add(value);
  return found ?? none;
}

/** Returns whether a request asks its server to take it for one of another method than its own. */
export const asksForOtherMethod = (request: MethodRequest): boolean => otherMethodsOf(request).length > 0;
