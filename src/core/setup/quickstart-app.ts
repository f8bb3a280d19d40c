import { create } from "@bufbuild/protobuf";
import type { SchemeName } from "../../auth/scheme.ts";
import { Fault } from "../../base/fault.ts";
import { type Integration, IntegrationSecretsSchema, OAuthAppSchema } from "../../gen/latchkey/v1/integration_pb.ts";
import type { Provider } from "../../gen/latchkey/v1/provider_pb.ts";

/** Whether each kind of credentials needs the customer's own app at the provider. */
const needsApp: { readonly [N in SchemeName]: boolean } = {
  oauth2: true,
  oauth2Client: true,
  oauth1: true,
  tba: true,
  app: true,
  apiKey: false,
  basic: false,
  jwt: false,
  twoStep: false,
  signature: false,
  awsSigv4: false,
  clientCertificate: false,
  none: false,
  onBehalf: true,
};

type App = Partial<Pick<Integration, "oauth" | "secrets">>;

/** Returns the integration with the client of the app; its scopes and other secrets stay. */
export const withApp = (integration: Integration, { oauth, secrets }: App): Integration => ({
  ...integration,
  ...(oauth === undefined
    ? {}
    : { oauth: { ...(integration.oauth ?? create(OAuthAppSchema)), clientId: oauth.clientId } }),
  ...(secrets === undefined
    ? {}
    : {
        secrets: { ...(integration.secrets ?? create(IntegrationSecretsSchema)), clientSecret: secrets.clientSecret },
      }),
});

/** Returns the app of a quickstart integration: a public one, or none where the provider needs none. */
export function quickstartApp(provider: Provider): App {
  const { name, auth, quickstartClient } = provider;
  if (quickstartClient !== undefined) {
    const { clientId, clientSecret } = quickstartClient;
    return {
      oauth: create(OAuthAppSchema, { clientId }),
      secrets: create(IntegrationSecretsSchema, { clientSecret }),
    };
  }
  if (auth.case === undefined || !needsApp[auth.case]) return {};
  const message =
    `${name} needs an app of your own: register one with the provider, with the redirect URI of this Latchkey, and ` +
    "create the integration by POST /integrations with its client id and client secret";
  throw new Fault("invalid_body", "there is no quickstart for this provider", {
    mistakes: [{ path: ["provider"], message }],
  });
}
