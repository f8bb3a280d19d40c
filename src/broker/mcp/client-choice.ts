import { timestampMs } from "@bufbuild/protobuf/wkt";
import { type Integration, ClientRegistration_Method as Method } from "../../gen/latchkey/v1/integration_pb.ts";
import { canServeDocuments, clientDocumentPath } from "./client-document.ts";
import type { DiscoveredAuthorization } from "./discovery.ts";
import type { RegisterClient, RegisteredClient } from "./registration.ts";

/** Returns the client to store; undefined: the integration keeps its own, or needs none. */
export type ChooseClient = (
  integration: Integration,
  authorization: DiscoveredAuthorization | undefined,
) => Promise<RegisteredClient | undefined>;

export interface ClientChoiceOptions {
  readonly register: RegisterClient;
  /** The redirect URI of an integration. */
  readonly callbackUrl: (integration: Integration) => Promise<string>;
  readonly publicUrl: () => string;
  readonly now: () => number;
}

interface RegistrationNeed {
  readonly authorization: DiscoveredAuthorization;
  readonly redirectUri: string;
}

/** A client secret that expires within a day is replaced. */
const renewAheadMs = 86_400_000;

export function createClientChoice({ register, callbackUrl, publicUrl, now }: ClientChoiceOptions): ChooseClient {
  /** Whether the registered client can still be used. */
  function isKept({ oauth, provider }: Integration, { authorization, redirectUri }: RegistrationNeed): boolean {
    const { clientId = "", registration } = oauth ?? {};
    if (clientId === "" || registration === undefined) return false;
    const { method, issuer, expiresAt } = registration;
    // Only the operator can replace it. For another issuer it is not used.
    if (method === Method.GIVEN) return true;
    if (issuer !== authorization.issuer || registration.redirectUri !== redirectUri) return false;
    if (method === Method.DYNAMIC) return expiresAt === undefined || timestampMs(expiresAt) - now() >= renewAheadMs;
    const isCurrent = clientId === `${publicUrl()}${clientDocumentPath(provider)}`;
    return method === Method.DOCUMENT && isCurrent && authorization.acceptsDocuments && canServeDocuments(publicUrl());
  }

  return async (integration, authorization) => {
    if (authorization === undefined) return undefined;
    const redirectUri = await callbackUrl(integration);
    if (isKept(integration, { authorization, redirectUri })) return undefined;
    const { provider } = integration;
    return register({ authorization, integration, provider, publicUrl: publicUrl(), redirectUri });
  };
}
