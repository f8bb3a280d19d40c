import type { JsonObject } from "@bufbuild/protobuf";
import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { Fault } from "../../base/fault.ts";
import { RequestFailed, type SendSmallRequest } from "../../base/small-requests.ts";
import {
  type ClientRegistration,
  ClientRegistrationSchema,
  type Integration,
  ClientRegistration_Method as Method,
} from "../../gen/latchkey/v1/integration_pb.ts";
import { canServeDocuments, clientDocumentPath, clientMetadata } from "./client-document.ts";
import type { DiscoveredAuthorization } from "./discovery.ts";
import { discoveryFailed, metadataMissing } from "./discovery-requests.ts";

/** A client that an authorization server knows. */
export interface RegisteredClient {
  readonly clientId: string;
  /** Empty for a public client. */
  readonly clientSecret: string;
  readonly registration: ClientRegistration;
}

export interface ClientToRegister {
  readonly authorization: DiscoveredAuthorization;
  readonly integration: Pick<Integration, "key" | "displayName">;
  readonly provider: string;
  readonly publicUrl: string;
  readonly redirectUri: string;
}

export type RegisterClient = (client: ClientToRegister) => Promise<RegisteredClient>;

/**
 * Registers a client where the operator gave none: by a metadata document, else dynamically. Throws `client_required` if
 * the authorization server takes neither.
 */
export const createRegistration =
  (send: SendSmallRequest): RegisterClient =>
  async (client) => {
    const { authorization, provider, publicUrl } = client;
    if (authorization.acceptsDocuments && canServeDocuments(publicUrl)) return documentClient(provider, client);
    if (authorization.registrationUrl !== "") return dynamicClient(send, client);
    throw clientRequired(client, "does not register clients by itself");
  };

function documentClient(provider: string, { authorization, publicUrl, redirectUri }: ClientToRegister) {
  const { issuer } = authorization;
  return {
    clientId: `${publicUrl}${clientDocumentPath(provider)}`,
    clientSecret: "",
    registration: create(ClientRegistrationSchema, {
      issuer,
      method: Method.DOCUMENT,
      redirectUri,
      authMethod: "none",
    }),
  };
}

/** RFC 7591. */
async function dynamicClient(send: SendSmallRequest, client: ClientToRegister): Promise<RegisteredClient> {
  const { authorization, redirectUri } = client;
  const metadata = clientMetadata({ ...client, authMethod: wantedMethod(authorization.authMethods) });
  const scope = authorization.scopes.length === 0 ? {} : { scope: authorization.scopes.join(" ") };
  const body = JSON.stringify({ ...metadata, ...scope, application_type: applicationType(redirectUri) });
  const headers = { "content-type": "application/json", accept: "application/json" };
  const request = { url: authorization.registrationUrl, method: "POST", headers, body };
  const answer = await send(request, { deadlineMs: 20_000, maxBytes: 256 * 1024 }).catch((error: unknown) => {
    if (!(error instanceof RequestFailed)) throw error;
    throw discoveryFailed(`its registration endpoint could not be reached (${error.reason})`, error);
  });
  const object = objectIn(answer.body);
  if (answer.status === 429 || answer.status >= 500) {
    throw discoveryFailed(`its registration endpoint answered ${answer.status}`);
  }
  const isDone = answer.status === 201 || answer.status === 200;
  // RFC 7591 refuses with 400. Anything else than that says that there is no such endpoint.
  if (authorization.isDefault === true && !isDone && answer.status !== 400) {
    throw metadataMissing([authorization.issuer]);
  }
  if (!isDone) {
    throw clientRequired(client, `refused the registration (${errorIn(object) ?? `status ${answer.status}`})`);
  }
  return registered(object, client);
}

function registered(object: JsonObject, client: ClientToRegister): RegisteredClient {
  const { client_id: clientId, client_secret: secret, client_secret_expires_at: expiresAt } = object;
  const clientSecret = typeof secret === "string" ? secret : "";
  const method = object["token_endpoint_auth_method"];
  if (typeof clientId !== "string" || clientId === "" || clientId.length > 4_096 || clientSecret.length > 16_384) {
    throw clientRequired(client, "answered the registration without a client ID");
  }
  const authMethod = typeof method === "string" && isKnown(method) ? method : clientSecret === "" ? "none" : "";
  return {
    clientId,
    clientSecret,
    registration: create(ClientRegistrationSchema, {
      issuer: client.authorization.issuer,
      method: Method.DYNAMIC,
      redirectUri: client.redirectUri,
      authMethod: clientSecret === "" ? "none" : authMethod,
      // 0 means that the secret does not expire.
      ...(typeof expiresAt === "number" && expiresAt > 0 ? { expiresAt: timestampFromMs(expiresAt * 1_000) } : {}),
    }),
  };
}

/** Methods that need nothing but a secret, in order of preference. */
const withSecret = ["client_secret_basic", "client_secret_post"] as const;
const isKnown = (method: string): boolean => method === "none" || withSecret.some((one) => one === method);

/** A client with a secret is safer: a stolen refresh token alone is then of no use. RFC 8414: absent means Basic. */
function wantedMethod(supported: readonly string[]): string {
  if (supported.length === 0) return "client_secret_basic";
  return withSecret.find((method) => supported.includes(method)) ?? "none";
}

/** OpenID Connect Registration, section 2: a web client may not redirect to this machine. */
function applicationType(redirectUri: string): "web" | "native" {
  const { protocol, hostname } = new URL(redirectUri);
  return protocol === "https:" && hostname !== "localhost" ? "web" : "native";
}

function clientRequired({ authorization, redirectUri }: ClientToRegister, why: string): Fault {
  const message = `the authorization server ${authorization.issuer} ${why}: register an app there with the redirect URI ${redirectUri}, and set the client ID and, if it has one, the client secret of the integration`;
  return new Fault("client_required", message, {
    metadata: { issuer: authorization.issuer, redirect_uri: redirectUri },
  });
}

function objectIn(body: Buffer): JsonObject {
  try {
    const parsed: unknown = JSON.parse(body.toString("utf8"));
    return typeof parsed === "object" && parsed !== null && !Array.isArray(parsed) ? (parsed as JsonObject) : {};
  } catch {
    return {};
  }
}

/** Only the code is repeated: a description is text of others. */
function errorIn({ error }: JsonObject): string | undefined {
  return typeof error === "string" && /^[\x21-\x7e]{1,64}$/.test(error) ? error : undefined;
}
