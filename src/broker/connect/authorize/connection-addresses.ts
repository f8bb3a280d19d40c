import type { JsonObject } from "@bufbuild/protobuf";
import type { Mistake } from "../../../base/fault.ts";
import { filledUrl, UnboundHost } from "../../../core/outgoing/filled-url.ts";
import type { Provider } from "../../../gen/latchkey/v1/provider_pb.ts";
import { placeholder } from "../../../providers/url-template.ts";

/**
 * Checks that a connection's values make valid addresses in the provider's URLs. A value of the right form may still
 * make none, such as a port that does not exist. URLs that still lack a value are not checked.
 */
export function checkAddresses({ auth, proxy, connectionFields: fields }: Provider, config: JsonObject): Mistake[] {
  const isOAuth = auth.case === "oauth2" || auth.case === "oauth1";
  const urls = [proxy?.baseUrl ?? "", ...(isOAuth ? [auth.value.authorizationUrl] : [])];
  const wrong = urls.flatMap((url) => {
    const names = [...url.matchAll(placeholder)].map(([, , name = ""]) => name);
    const areThere = names.every((name) => typeof config[name] === "string" && config[name] !== "");
    return names.length > 0 && areThere && !makesAddress(url, { fields, config, defaults: {} }) ? names : [];
  });
  return [...new Set(wrong)].map((name) => ({
    path: ["connection_config", name],
    message: "does not give a valid address of the provider",
  }));
}

function makesAddress(url: string, filling: Parameters<typeof filledUrl>[1]): boolean {
  try {
    filledUrl(url, filling);
    return true;
  } catch (error) {
    if (error instanceof UnboundHost) return false;
    throw error;
  }
}
