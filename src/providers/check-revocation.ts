import type { Mistake } from "../base/fault.ts";
import type { Provider } from "../gen/latchkey/v1/provider_pb.ts";
import { mistake } from "./mistake.ts";

const allowed = /^(?:accessToken|refreshToken|integration\.\w+|connectionConfig\.\w+)$/;

/** Checks how a provider's description revokes grants. */
export function checkRevocation({ auth, proxy, revocation }: Provider): Mistake[] {
  if (revocation === undefined) return [];
  const { request, goneErrors, error, accepted, tokens, accountField } = revocation;
  if (accountField !== "" && !/^(metadata|connection_config)\.[^.]+$/.test(accountField)) {
    return [mistake("revocation.account_field", "must be metadata.NAME or connection_config.NAME")];
  }
  if (request === undefined) {
    const hasEndpoint = auth.case === "oauth2" && (auth.value.revocationUrl !== "" || auth.value.metadataUrl !== "");
    const isOfRequest = accepted !== "" || error !== "" || tokens.length > 0;
    return hasEndpoint && !isOfRequest
      ? []
      : [mistake("revocation.request", "is required, unless `oauth2` has a revocation_url")];
  }
  const { method, path, body, format, headers } = request;
  const placeholders = [path, body, ...Object.values(headers)].flatMap((text) =>
    [...text.matchAll(/\$\{([^}]*)\}/g)].map(([, name = ""]) => name),
  );
  return [
    ...(/^[A-Z]+$/.test(method) ? [] : [mistake("revocation.request.method", "must be an HTTP method in upper case")]),
    ...checkPath(path, proxy?.hosts.map(({ origin }) => origin) ?? []),
    ...(body === "" || format === "form" || isJson(body) ? [] : [mistake("revocation.request.body", "must be JSON")]),
    ...(placeholders.every((name) => allowed.test(name))
      ? []
      : [
          mistake(
            "revocation.request",
            "may contain only ${accessToken}, ${refreshToken}, ${integration.NAME} and ${connectionConfig.NAME}",
          ),
        ]),
    ...(goneErrors.length > 0 && error === ""
      ? [mistake("revocation.error", "is required with gone_errors: the place of the error code")]
      : []),
  ];
}

/** A path of the base URL, or a URL of one of the description's hosts. */
function checkPath(path: string, origins: readonly string[]): Mistake[] {
  const at = "revocation.request.path";
  if (path.startsWith("/") && !path.startsWith("//")) return [];
  return origins.some((origin) => path.startsWith(`${origin}/`))
    ? []
    : [mistake(at, "must begin with exactly one slash, or with an origin of proxy.hosts")];
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
