import type { Broker } from "../../broker/broker.ts";
import type { ConnectSession } from "../../gen/latchkey/v1/connect_session_pb.ts";
import type { IntegrationChoice } from "../pages/connect-page.ts";
import { ownerOf, type SessionOwner } from "../pages/session-owner.ts";

/** Data for the pages of a connect session: the integrations to choose from, who asks, and for which user. */
export interface ConnectChoices {
  of(session: ConnectSession): Promise<IntegrationChoice[]>;
  ownerOf(session: ConnectSession): Promise<SessionOwner>;
}

type ChoicesOptions = Pick<Broker, "sessions" | "integrations" | "providers" | "environments" | "connections">;

export function createConnectChoices(options: ChoicesOptions): ConnectChoices {
  const { sessions, integrations, providers, environments, connections } = options;
  return {
    async of(session) {
      const keys = await sessions.choices(session);
      const found = await Promise.all(
        keys.map(async (key) => {
          const { value: integration } = await integrations.get({ environment: session.environment, key });
          const provider = providers.lookUp(integration.provider);
          return provider === undefined ? [] : [{ integration, provider }];
        }),
      );
      return found.flat();
    },
    async ownerOf(session) {
      const { reconnect, environment, endUser, tags } = session;
      const { allowedOrigins } = await environments.get(environment);
      // A reconnect session need not name the user: the connection does.
      const [existing] = reconnect === undefined ? [] : await connections.getMany([reconnect]);
      const user = endUser ?? existing?.endUser;
      const described = { environment, tags: { ...existing?.tags, ...tags }, ...(user && { endUser: user }) };
      return ownerOf({ session: described, allowedOrigins });
    },
  };
}
