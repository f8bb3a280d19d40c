import { create, type JsonObject } from "@bufbuild/protobuf";
import { TokenFailure } from "../../../auth/oauth2/tokens.ts";
import { Fault } from "../../../base/fault.ts";
import type { World } from "../../../base/world.ts";
import { missingScopes } from "../../../core/granted-scopes.ts";
import type { ConnectSession } from "../../../gen/latchkey/v1/connect_session_pb.ts";
import type { Connection } from "../../../gen/latchkey/v1/connection_pb.ts";
import { type Credentials, CredentialsSchema } from "../../../gen/latchkey/v1/credentials_pb.ts";
import type { StoredRecordOf } from "../../../store/records.ts";
import { secretValues } from "../../audit/secret-values.ts";
import type { ProviderRequests } from "../../credentials/provider-requests.ts";
import type { TokenEndpoint } from "../../tokens/token-endpoint.ts";
import { type AuthorizationContext, type AuthorizationContexts, configOf, scopesOf } from "./authorization-context.ts";
import type { AuthorizedConnections } from "./authorized-connection.ts";
import type { FailedAuthorizations } from "./failed-authorizations.ts";
import { AuthorizationFailure, codeOf, notAccepted } from "./failure.ts";
import { tokenExpiry } from "./grant-result.ts";

/** The credentials that an end user entered. */
export interface EnteredCredentials {
  readonly session: StoredRecordOf<ConnectSession>;
  readonly integration: string;
  readonly credentials: Credentials;
  readonly params: Readonly<Record<string, string>>;
}

interface EnteredCredentialsOptions {
  readonly contexts: AuthorizationContexts;
  readonly authorized: AuthorizedConnections;
  readonly tokenEndpoint: TokenEndpoint;
  readonly asks: ProviderRequests;
  readonly failures: FailedAuthorizations;
  readonly world: World;
}

export type TakeCredentials = (given: EnteredCredentials) => Promise<Connection>;

/** Makes connections from entered credentials, unless the provider refuses them. */
export function createTakeCredentials(options: EnteredCredentialsOptions): TakeCredentials {
  const { contexts, authorized, tokenEndpoint, asks, failures, world } = options;

  async function connect({ session, integration: key, credentials, params }: EnteredCredentials): Promise<Connection> {
    const context = await contexts.of(session, key);
    const wanted = context.provider.auth.case ?? "none";
    if (credentials.kind.case !== wanted) {
      throw new Fault("invalid_body", `"${key}" uses another kind of credentials`);
    }
    try {
      const connection = await storeIfAccepted(context, credentials, configOf(context, params));
      world.metrics.authorizations.inc({ credentials: wanted, outcome: "connected" });
      return connection;
    } catch (error) {
      if (!(error instanceof AuthorizationFailure || error instanceof TokenFailure)) throw error;
      const { environment } = session.value;
      const secrets = secretValues(CredentialsSchema, credentials);
      const attempt = { environment, integration: key, existing: context.existing?.ref, credentials: wanted, secrets };
      const { by, message } = await failures.note(error, attempt);
      const code = by === "refused" || by === "token_refused" ? "connection_test_failed" : codeOf(by);
      throw new Fault(code, message, { cause: error });
    }
  }

  async function storeIfAccepted(
    context: AuthorizationContext,
    credentials: Credentials,
    connectionConfig: JsonObject,
  ) {
    const obtained = await withFirstToken(context, credentials, connectionConfig);
    const grant = { metadata: {}, connectionConfig, grantedScopes: [], missingScopes: [], ...obtained };
    if ((await asks.prove(await authorized.draftOf(context, grant, ""))) === "refused") {
      throw notAccepted();
    }
    return (await authorized.file(context, grant)).connection;
  }

  /** Requests a first token for the end user's own OAuth client, which shows at once whether the client is valid. */
  async function withFirstToken(context: AuthorizationContext, credentials: Credentials, connectionConfig: JsonObject) {
    const { auth } = context.provider;
    if (credentials.kind.case !== "oauth2Client" || auth.case !== "oauth2Client") return { credentials };
    const given = credentials.kind.value;
    const scopes = scopesOf(context, auth.value, []);
    const client = {
      id: given.clientId,
      secret: given.clientSecret,
      certificate: given.clientCertificate || undefined,
      privateKey: given.clientPrivateKey || undefined,
    };
    const parties = { ...(await contexts.partiesOf(context, connectionConfig)), client };
    const tokens = await tokenEndpoint
      .ask({ ...parties, grant: { type: "client_credentials", scopes } })
      .catch((error: unknown) => {
        // The client is the end user's input here, not the operator's configuration.
        if (error instanceof TokenFailure && error.kind === "client_refused") throw notAccepted(error.code);
        throw error;
      });
    const { accessToken: token, raw, dpopKey = "" } = tokens;
    const value = { ...given, token, raw, dpopKey, ...tokenExpiry(tokens) };
    const grantedScopes = tokens.scopes ?? scopes;
    return {
      credentials: create(CredentialsSchema, { kind: { case: "oauth2Client", value } }),
      connectionConfig: { ...connectionConfig, ...tokens.connectionConfig },
      metadata: tokens.metadata,
      grantedScopes,
      missingScopes: missingScopes(scopes, grantedScopes),
    };
  }

  return connect;
}
