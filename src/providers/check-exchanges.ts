import type { Mistake } from "../base/fault.ts";
import type { TokenExchange } from "../gen/latchkey/v1/provider_pb.ts";
import { checkPlaceholders, type PlaceholderRoot } from "./check-placeholders.ts";
import { mistake } from "./mistake.ts";

const maxSteps = 5;
const allowed: readonly PlaceholderRoot[] = ["token", "integration", "clientSecret", "connectionConfig"];

/** Checks the further steps of a token exchange, apart from their URLs, which are checked with all others. */
export function checkExchanges(exchanges: readonly TokenExchange[]): Mistake[] {
  return [
    ...(exchanges.length > maxSteps ? [mistake("auth.exchanges", `must be at most ${maxSteps} steps`)] : []),
    ...exchanges.flatMap(({ url, method, format, params, headers }, i) => {
      const path = `auth.exchanges.${i}`;
      const texts = [...Object.values(params), ...Object.values(headers)];
      return [
        ...(url === "" ? [mistake(`${path}.url`, "must name the endpoint of the exchange")] : []),
        ...(method === "GET" && format === "json"
          ? [mistake(`${path}.format`, "must be form or empty, because a GET has no body")]
          : []),
        ...(texts.some((text) => text.includes("${token}"))
          ? []
          : [mistake(`${path}.params`, "or headers must contain ${token}, which is exchanged")]),
        ...textsOf(path, { params, headers }).flatMap(([at, text]) => checkPlaceholders(text, at, allowed)),
        ...checkHeaderNames(headers, `${path}.headers`),
      ];
    }),
  ];
}

/** Returns the texts of a request with their paths. */
export const textsOf = (
  path: string,
  maps: Readonly<Record<string, Readonly<Record<string, string>>>>,
): [string, string][] =>
  Object.entries(maps).flatMap(([part, texts]) =>
    Object.entries(texts).map(([name, text]): [string, string] => [`${path}.${part}.${name}`, text]),
  );

/** Headers that frame a request, or that the connection to the provider owns. */
const reserved = ["host", "content-length", "transfer-encoding", "connection", "upgrade", "te", "trailer", "cookie"];

export const checkHeaderNames = (headers: Readonly<Record<string, string>>, path: string): Mistake[] =>
  Object.keys(headers).flatMap((name) =>
    /^[A-Za-z0-9!#$%&'*+.^_`|~-]+$/.test(name) && !reserved.includes(name.toLowerCase())
      ? []
      : [mistake(`${path}.${name}`, "cannot be a header of this request")],
  );
