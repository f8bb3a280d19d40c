import { type Integration, Integration_Callback } from "../gen/latchkey/v1/integration_pb.ts";
import type { Provider } from "../gen/latchkey/v1/provider_pb.ts";

type SetUp = Pick<Integration, "callback">;

/** Reports whether authorization sends end users to the provider's page and back to a redirect URI. */
export const hasCallback = ({ auth }: Provider): boolean =>
  auth.case === "oauth2" || auth.case === "oauth1" || (auth.case === "app" && auth.value.installUrl !== "");

/**
 * Reports whether a response of another provider could be mistaken for one of this provider: no issuer is known in
 * advance to compare with (RFC 9207). OAuth 1 is not affected: the secret of the temporary token, which never leaves
 * this process, ties each response to its provider.
 */
const isAnonymous = ({ auth }: Provider): boolean =>
  auth.case === "app" || (auth.case === "oauth2" && (auth.value.issuer === "" || auth.value.issuer.includes("${")));

/** The redirect URI form of a new integration that does not choose one. */
export function newCallback(provider: Provider | undefined): Integration_Callback {
  if (provider === undefined || !hasCallback(provider)) return Integration_Callback.UNSPECIFIED;
  return isAnonymous(provider) ? Integration_Callback.BOUND : Integration_Callback.SHARED;
}

/** Reports whether authorization responses arrive at the redirect URI that integrations share. */
export const sharesCallback = ({ callback }: SetUp, provider: Provider | undefined): boolean =>
  provider !== undefined && hasCallback(provider) && callback !== Integration_Callback.BOUND;

/**
 * Reports whether the integration shares its redirect URI and could receive a response meant for another integration.
 */
export const isConfusable = (integration: SetUp, provider: Provider | undefined): provider is Provider =>
  provider !== undefined && sharesCallback(integration, provider) && isAnonymous(provider);
