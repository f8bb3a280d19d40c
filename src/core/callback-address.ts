import { type Integration, Integration_Callback } from "../gen/latchkey/v1/integration_pb.ts";
import type { Provider } from "../gen/latchkey/v1/provider_pb.ts";

type SetUp = Pick<Integration, "callback">;

/** End users go to the provider's page and come back to a redirect URI. */
export const hasCallback = ({ auth }: Provider): boolean => auth.case === "oauth2" || auth.case === "oauth1";

/**
 * An answer of another provider could be taken for one of this: no issuer is known beforehand to compare with (RFC
 * 9207). An answer of OAuth 1 is tied to its provider by the secret of the temporary token, which stays here.
 */
const isAnonymous = ({ auth }: Provider): boolean =>
  auth.case === "oauth2" && (auth.value.issuer === "" || auth.value.issuer.includes("${"));

/** The redirect URI of an integration that is new and asks for neither form. */
export function newCallback(provider: Provider | undefined): Integration_Callback {
  if (provider === undefined || !hasCallback(provider)) return Integration_Callback.UNSPECIFIED;
  return isAnonymous(provider) ? Integration_Callback.BOUND : Integration_Callback.SHARED;
}

/** Answers come back to the address that integrations share. */
export const sharesCallback = ({ callback }: SetUp, provider: Provider | undefined): boolean =>
  provider !== undefined && hasCallback(provider) && callback !== Integration_Callback.BOUND;

/** One of those that share the address could be given the answer that was meant for another. */
export const isConfusable = (integration: SetUp, provider: Provider | undefined): provider is Provider =>
  provider !== undefined && sharesCallback(integration, provider) && isAnonymous(provider);
