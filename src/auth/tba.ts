import { neverExpires, notRefreshed, sentWhole, shownWhole } from "./kind-traits.ts";
import { signedRequests } from "./oauth1/request.ts";
import type { AuthScheme, Client, CredentialsOf } from "./scheme.ts";

/** OAuth 1.0a with HMAC-SHA256 and the account as the realm. */
export const tba: AuthScheme<"tba"> = {
  ...{ ...neverExpires, ...notRefreshed, ...shownWhole, ...sentWhole },
  attach({ credentials, rules, client, connectionConfig }) {
    const { tokenId: token, tokenSecret } = credentials;
    const consumer = consumerOf(credentials, client);
    return signedRequests({
      rules,
      defaultMethod: "HMAC-SHA256",
      client: consumer,
      token,
      tokenSecret,
      connectionConfig,
    });
  },
  names: () => ({ headers: ["authorization"], query: [] }),
};

/** The connection's own consumer, if any; missing parts come from the integration. */
function consumerOf({ configOverride }: CredentialsOf<"tba">, client: Client | undefined): Client | undefined {
  if (configOverride === undefined) return client;
  const { clientId, clientSecret } = configOverride;
  return { ...client, id: clientId || (client?.id ?? ""), secret: clientSecret || (client?.secret ?? "") };
}
