import type { Mistake } from "../base/fault.ts";
import type { SenderKeyRequest } from "../gen/latchkey/v1/provider_pb.ts";
import { checkUrl } from "./check-url.ts";
import { checkValueRule, isOneSet } from "./check-value-rule.ts";
import { hostPatternMistake } from "./host-pattern.ts";
import { mistake } from "./mistake.ts";

/** Checks that a sender's key can come only from hosts of the description. */
export function checkSenderKey(rules: SenderKeyRequest, path: string, settings: readonly string[]): Mistake[] {
  const { url, keyId, urlValue, hosts, format, certificateNames, body, authorization } = rules;
  const at = (name: string) => `${path}.${name}`;
  return [
    ...(isOneSet([url, urlValue === undefined ? "" : "value"])
      ? []
      : [mistake(at("url"), "or url_value must say where the key is, and not both")]),
    ...(keyId === undefined ? [] : checkValueRule(keyId, at("key_id"))),
    ...(urlValue === undefined ? [] : checkValueRule(urlValue, at("url_value"))),
    ...checkKeyUrl(url, at("url")),
    // Without a list, a stranger would choose whose key is trusted.
    ...(urlValue !== undefined && hosts.length === 0 ? [mistake(at("hosts"), "is required with url_value")] : []),
    ...checkHosts(hosts, at("hosts")),
    // A credential goes only to an address that no notification chooses.
    ...(url === "" && (body !== "" || authorization !== "")
      ? [mistake(at("url"), "is required with body or authorization")]
      : []),
    ...(certificateNames.length > 0 && format !== "certificate"
      ? [mistake(at("certificate_names"), "needs the format certificate")]
      : []),
    ...certificateNames.flatMap((name, i) =>
      hostPatternMistake(name) === undefined && !name.includes("*")
        ? []
        : [mistake(at(`certificate_names.${i}`), "must be a host name")],
    ),
    ...checkKeyBody(body, at("body"), settings),
  ];
}

/** Checks patterns of hosts, at the path of their list. */
export const checkHosts = (hosts: readonly string[], path: string): Mistake[] =>
  hosts.flatMap((host, i) => {
    const wrong = hostPatternMistake(host);
    return wrong === undefined ? [] : [mistake(`${path}.${i}`, wrong)];
  });

function checkKeyUrl(url: string, path: string): Mistake[] {
  const filled = url.replaceAll("${keyId}", "a");
  // A stranger chooses the ID: it must be a whole segment or a whole value.
  const isWhole = !url.replaceAll(/(?<=\/[^?#]*\/|[?&][^=&#]+=)\$\{keyId\}(?=[/?&]|$)/g, "").includes("${");
  return [
    ...checkUrl({ url: filled, path, fields: [] }),
    ...(isWhole ? [] : [mistake(path, "may contain only ${keyId}, as a whole path segment or query value")]),
    ...(url !== "" && URL.canParse(filled) && new URL(filled).port !== "" ? [mistake(path, "must have no port")] : []),
  ];
}

function checkKeyBody(body: string, path: string, settings: readonly string[]): Mistake[] {
  if (body === "") return [];
  const names = [...body.matchAll(/\$\{([^}]*)\}?/g)].map(([, name = ""]) => name);
  const known = ["keyId", ...[...settings, "clientId"].map((name) => `integration.${name}`)];
  return [
    ...(isJson(body) ? [] : [mistake(path, "must be JSON")]),
    ...(names.every((name) => known.includes(name)) ? [] : [mistake(path, `may contain only ${known.join(", ")}`)]),
  ];
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    // The author of the description has to find the error.
    return false;
  }
}
