import { create } from "@bufbuild/protobuf";
import { TokenFailure } from "../../auth/oauth2/tokens.ts";
import { Fault } from "../../base/fault.ts";
import type { World } from "../../base/world.ts";
import { type Connection, type ConnectionRef, ConnectionSchema } from "../../gen/latchkey/v1/connection_pb.ts";
import { CredentialsSchema } from "../../gen/latchkey/v1/credentials_pb.ts";
import { NoAuthRulesSchema, OAuth2RulesSchema, type Provider } from "../../gen/latchkey/v1/provider_pb.ts";
import type { LiveConnection } from "../credentials/live-connections.ts";
import type { Integrations } from "../setup/integrations.ts";
import type { Providers } from "../setup/providers.ts";
import type { TokenEndpoint } from "../tokens/token-endpoint.ts";

/**
 * Clients that ask for channels in place of a connection with its credentials: the OAuth app with a token of its own, or
 * the app by values in the request.
 */
export interface ChannelClients {
  /** The integration itself, for channels that serve all its connections. Rejects with `not_found`. */
  ofIntegration(ref: Pick<ConnectionRef, "environment" | "integration">): Promise<LiveConnection>;
  /** Replaces the credentials as the rules say. Rejects with a Fault if the app gets no token. */
  asClient(found: LiveConnection): Promise<LiveConnection>;
  /** Returns a token of the OAuth app itself. Rejects with a Fault if it gets none. */
  tokenFor(ref: Pick<ConnectionRef, "environment" | "integration">): Promise<string>;
  /** The provider has refused the app's token: returns it with another one; undefined: it had none. */
  again(found: LiveConnection): Promise<LiveConnection | undefined>;
}

interface ChannelClientsOptions {
  readonly integrations: Pick<Integrations, "inUse">;
  readonly providers: Pick<Providers, "findNow">;
  readonly tokens: Pick<TokenEndpoint, "ask">;
  readonly world: World;
}

interface HeldToken {
  readonly token: string;
  readonly untilMs: number;
  /** The integration's secrets when it was issued: other secrets need another token. */
  readonly secrets: LiveConnection["secrets"];
}

const mostHeld = 1_000;
const marginMs = 60_000;
const usualLifeMs = 3_600_000;
const withinMs = 15_000;

export function createChannelClients({
  integrations,
  providers,
  tokens,
  world,
}: ChannelClientsOptions): ChannelClients {
  const held = new Map<string, HeldToken>();
  const nameOf = ({ environment, key }: LiveConnection["integration"]) => `${environment}\0${key}`;

  async function fetchToken({ provider, integration, secrets, connection }: LiveConnection): Promise<HeldToken> {
    const { auth } = provider;
    if (auth.case !== "oauth2" && auth.case !== "oauth2Client") {
      throw new Fault("connection_unusable", "the provider's OAuth app has no tokens of its own");
    }
    // An app asks for no scopes of end users.
    const rules = create(OAuth2RulesSchema, { ...auth.value, defaultScopes: [] });
    const issued = await tokens
      .ask({
        provider: { ...provider, auth: { case: "oauth2Client", value: rules } },
        integration: { ...integration, ...(integration.oauth && { oauth: { ...integration.oauth, scopes: [] } }) },
        secrets,
        connectionConfig: { ...integration.connectionDefaults, ...connection.connectionConfig },
        grant: { type: "client_credentials", scopes: [] },
        signal: AbortSignal.timeout(withinMs),
      })
      .catch((error: unknown) => {
        if (!(error instanceof TokenFailure)) throw error;
        throw new Fault("refresh_unavailable", "the OAuth app got no token for a channel request", { cause: error });
      });
    return { token: issued.accessToken, untilMs: issued.expiresAtMs ?? world.now() + usualLifeMs, secrets };
  }

  async function tokenOf(found: LiveConnection): Promise<string> {
    const name = nameOf(found.integration);
    const known = held.get(name);
    if (known !== undefined && known.secrets === found.secrets && known.untilMs - marginMs > world.now()) {
      return known.token;
    }
    const fresh = await fetchToken(found);
    if (held.size >= mostHeld) held.clear();
    held.set(name, fresh);
    return fresh.token;
  }

  const authorizationOf = ({ channel }: Provider) => channel?.authorization ?? "";

  async function asClient(found: LiveConnection): Promise<LiveConnection> {
    const { provider } = found;
    switch (authorizationOf(provider)) {
      case "client": {
        const token = await tokenOf(found);
        const { auth } = provider;
        const value = auth.case === "oauth2" || auth.case === "oauth2Client" ? auth.value : create(OAuth2RulesSchema);
        const credentials = create(CredentialsSchema, { kind: { case: "oauth2Client", value: { token } } });
        return { ...found, provider: { ...provider, auth: { case: "oauth2Client", value } }, credentials };
      }
      case "none": {
        const credentials = create(CredentialsSchema, { kind: { case: "none", value: {} } });
        const value = create(NoAuthRulesSchema);
        return { ...found, provider: { ...provider, auth: { case: "none", value } }, credentials };
      }
      default:
        return found;
    }
  }

  const ofIntegration: ChannelClients["ofIntegration"] = async ({ environment, integration: key }) => {
    const { integration, secrets } = await integrations.inUse({ environment, key });
    const provider = await providers.findNow(integration.provider);
    const connection: Connection = create(ConnectionSchema, {
      ref: { environment, integration: key, id: "" },
      provider: integration.provider,
    });
    return { connection, integration, secrets, provider, credentials: create(CredentialsSchema) };
  };

  return {
    ofIntegration,
    asClient,
    tokenFor: async (ref) => tokenOf(await ofIntegration(ref)),
    async again(found) {
      if (authorizationOf(found.provider) !== "client") return undefined;
      held.delete(nameOf(found.integration));
      return asClient(found);
    },
  };
}
