import type { SmallRequest } from "../../base/small-requests.ts";
import type { OAuth2Rules, ParameterNames } from "../../gen/latchkey/v1/provider_pb.ts";

/** How a provider expects the parameters of an OAuth request. */
export interface ParameterForm {
  /** `form`, `json` or `query`; empty: a form. */
  readonly format: string;
  /** Empty: POST. */
  readonly method: string;
  readonly names: ParameterNames | undefined;
  readonly omitted: readonly string[];
}

/** The form of requests whose parameters no description changes. */
export const plainForm: ParameterForm = { format: "", method: "", names: undefined, omitted: [] };

/** The form of token requests and refreshes. */
export function tokenForm(rules: OAuth2Rules, isRenewal: boolean): ParameterForm {
  const { tokenRequestFormat: format, tokenRequestMethod, refreshRequestMethod, omittedParams: omitted } = rules;
  const method = isRenewal && refreshRequestMethod !== "" ? refreshRequestMethod : tokenRequestMethod;
  return { format, method, names: rules.parameterNames, omitted };
}

interface PlainRequest {
  readonly url: string;
  readonly method: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: unknown;
}

/** Writes a request with a form of standard parameters as the provider expects it. */
export function writtenRequest(
  { url, method, headers, body }: PlainRequest,
  form: ParameterForm,
): Pick<SmallRequest, "url" | "method" | "headers" | "body" | "mayRepeat"> {
  if (!(body instanceof URLSearchParams)) {
    return { url, method, headers, body: body === undefined ? undefined : String(body) };
  }
  const parameters = renamed([...body], form);
  if (form.method === "GET" || form.format === "query") {
    const { "content-type": _, ...others } = headers;
    // A code or a refresh token must not arrive twice, whatever the method.
    return { url: withParameters(url, parameters), method: form.method || method, headers: others, mayRepeat: false };
  }
  if (form.format === "json") {
    const json = { ...headers, "content-type": "application/json" };
    return { url, method, headers: json, body: JSON.stringify(Object.fromEntries(parameters)) };
  }
  return { url, method, headers, body: String(new URLSearchParams(parameters)) };
}

/** Adds parameters to the query of an address. */
export function withParameters(url: string, parameters: readonly (readonly [string, string])[]): string {
  if (parameters.length === 0) return url;
  const query = new URLSearchParams(parameters.map(([name, value]): [string, string] => [name, value]));
  return `${url}${url.includes("?") ? "&" : "?"}${query}`;
}

/** Returns parameters under the provider's names, without those that it does not accept. */
export function renamed(
  parameters: readonly (readonly [string, string])[],
  { names, omitted }: Pick<ParameterForm, "names" | "omitted">,
): [string, string][] {
  return parameters
    .filter(([name]) => !omitted.includes(name))
    .map(([name, value]) => [providerName(name, names), value]);
}

/** Returns the provider's name of a parameter of RFC 6749. */
export function providerName(name: string, names: ParameterNames | undefined): string {
  switch (name) {
    case "client_id":
      return names?.clientId || name;
    case "client_secret":
      return names?.clientSecret || name;
    case "code":
      return names?.code || name;
    case "redirect_uri":
      return names?.redirectUri || name;
    case "refresh_token":
      return names?.refreshToken || name;
    default:
      return name;
  }
}
