import { create } from "@bufbuild/protobuf";
import {
  ClientRegistration_Method,
  ClientRegistrationSchema,
  type Integration,
  type OAuthApp,
} from "../../gen/latchkey/v1/integration_pb.ts";
import type { Provider } from "../../gen/latchkey/v1/provider_pb.ts";
import { discoveredServer } from "./discovered-server.ts";

interface FormerSetup {
  readonly before: Integration | undefined;
  readonly provider: Provider | undefined;
}

/**
 * Binds the client of an MCP integration to an issuer: a client that the operator has just entered to the current one.
 * An unchanged client keeps its registration; a request cannot change it.
 */
export function withRegistration(integration: Integration, { before, provider }: FormerSetup): Integration {
  const { oauth } = integration;
  if (oauth === undefined) return integration;
  const { registration: _, ...app } = oauth;
  if (provider === undefined || discoveredServer(provider) === undefined || app.clientId === "")
    return { ...integration, oauth: app };
  const known = before?.oauth?.clientId === app.clientId ? before.oauth.registration : undefined;
  return { ...integration, oauth: { ...app, registration: known ?? givenRegistration(provider) } };
}

const givenRegistration = ({ auth }: Provider): NonNullable<OAuthApp["registration"]> =>
  create(ClientRegistrationSchema, {
    issuer: auth.case === "oauth2" ? auth.value.issuer : "",
    method: ClientRegistration_Method.GIVEN,
  });
