import type { JsonObject } from "@bufbuild/protobuf";
import type { TokenParties } from "./token-endpoint.ts";

type IntegrationParties = Pick<TokenParties, "provider" | "integration" | "secrets" | "client">;

/** What `${integration.NAME}` stands for in token requests, which alone may contain the client secret. */
export function integrationTexts({ provider, integration, secrets, client: own }: IntegrationParties): JsonObject {
  const { clientId = "", scopes = [] } = integration.oauth ?? {};
  const rules = provider.auth.value;
  const defaults = rules !== undefined && "defaultScopes" in rules ? rules.defaultScopes : [];
  return {
    ...integration.settings,
    ...secrets?.settings,
    clientId: own?.id ?? clientId,
    clientSecret: own === undefined ? (secrets?.clientSecret ?? "") : own.secret,
    scopes: (scopes.length > 0 ? scopes : defaults).join(" "),
  };
}
