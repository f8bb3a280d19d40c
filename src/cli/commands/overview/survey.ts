import { Code, ConnectError } from "@connectrpc/connect";
import { Connection_State, ConnectionService } from "../../../gen/latchkey/v1/connection_pb.ts";
import { type Environment, EnvironmentService } from "../../../gen/latchkey/v1/environment_pb.ts";
import { type Integration, IntegrationService } from "../../../gen/latchkey/v1/integration_pb.ts";
import { type Destination, WebhookService } from "../../../gen/latchkey/v1/webhook_pb.ts";
import type { CommandSession } from "../../session.ts";

/** What an environment holds, as far as the key may read it. */
export interface EnvironmentSurvey {
  readonly environment: Environment;
  readonly integrations: readonly Integration[];
  readonly connections: CountUpTo;
  /** Connections by state, without the active ones. */
  readonly unwell: readonly (readonly [state: Connection_State, count: CountUpTo])[];
  readonly destinations: readonly Destination[];
}

/** A count that stops at a page. */
export interface CountUpTo {
  readonly count: number;
  readonly isMore: boolean;
}

const pageSize = 1_000;
const unwellStates = [
  Connection_State.REAUTHORIZATION_REQUIRED,
  Connection_State.REFRESH_FAILING,
  Connection_State.EXPIRING,
] as const;

/** Returns the environments that the key can access, or the one of `--environment`. */
export async function surveyedEnvironments({ client, environment }: CommandSession): Promise<readonly Environment[]> {
  if (environment !== "") {
    const { environment: one } = await client(EnvironmentService).getEnvironment({ name: environment });
    return one === undefined ? [] : [one];
  }
  return (await client(EnvironmentService).listEnvironments({ pageSize })).environments;
}

export async function survey(session: CommandSession, environment: Environment): Promise<EnvironmentSurvey> {
  const { client } = session;
  const { name } = environment;
  const counted = async (states: readonly Connection_State[]): Promise<CountUpTo> => {
    const request = { environment: name, pageSize, filter: { states: [...states] } };
    const { connections, nextPageToken } = await client(ConnectionService).listConnections(request);
    return { count: connections.length, isMore: nextPageToken !== "" };
  };
  const [integrations, connections, destinations, ...unwell] = await Promise.all([
    ifAllowed(
      async () => (await client(IntegrationService).listIntegrations({ environment: name, pageSize })).integrations,
    ),
    counted([]),
    ifAllowed(async () => (await client(WebhookService).listDestinations({ environment: name })).destinations),
    ...unwellStates.map(async (state) => [state, await counted([state])] as const),
  ]);
  return {
    environment,
    integrations,
    connections,
    destinations,
    unwell: unwell.filter(([, { count }]) => count > 0),
  };
}

/** Returns nothing if the key lacks the scope. */
async function ifAllowed<T>(read: () => Promise<readonly T[]>): Promise<readonly T[]> {
  try {
    return await read();
  } catch (error) {
    if (error instanceof ConnectError && error.code === Code.PermissionDenied) return [];
    throw error;
  }
}

export const countText = ({ count, isMore }: CountUpTo): string =>
  `${count.toLocaleString("en-US")}${isMore ? "+" : ""}`;
