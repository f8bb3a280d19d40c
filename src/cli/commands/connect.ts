import { setTimeout as sleep } from "node:timers/promises";
import { Code, ConnectError } from "@connectrpc/connect";
import type { Command } from "commander";
import {
  type ConnectSession,
  ConnectSessionService,
  CreateConnectSessionResponseSchema,
  type DeviceAuthorization,
  DeviceAuthorization_State,
  DeviceAuthorizationSchema,
} from "../../gen/latchkey/v1/connect_session_pb.ts";
import { type Connection, ConnectionSchema, ConnectionService } from "../../gen/latchkey/v1/connection_pb.ts";
import type { Act, CommandSession } from "../session.ts";
import { exitCodes } from "../terminal/exit-codes.ts";
import { listed, paired } from "../terminal/option-values.ts";
import { pagesOf } from "../terminal/paging.ts";
import { UsageMistake } from "../terminal/usage-mistake.ts";
import { nameOf } from "./connections/names.ts";

interface ConnectCommandOptions {
  readonly device?: true;
  readonly wait?: true;
  readonly id?: string;
  readonly scope?: readonly string[];
  readonly endUser?: string;
  readonly tag?: Readonly<Record<string, string>>;
  readonly config?: Readonly<Record<string, string>>;
}

/** Polling interval: a user who has just clicked looks back at the terminal after about this time. */
const lookAgainMs = 1_000;
const pageSize = 1_000;

/** Adds `connect INTEGRATION`: an end user authorizes a connection, by a link or a code. */
export function addConnect(program: Command, act: Act): void {
  program
    .command("connect")
    .argument("<integration>", "key of the integration, for example calendar")
    .option("--device", "show a code to enter on any device, and wait (RFC 8628; the provider must support it)")
    .option("--wait", "wait until the connection exists; always on with --device")
    .option("--id <connection>", "id of an existing connection to reauthorize; with --device, id of the new connection")
    .option("--scope <scope>", "OAuth scope to request in addition to the integration's; repeatable", listed)
    .option("--end-user <id>", "id of the end user; a link needs this, --tag or --id")
    .option("--tag <key=value>", "tag of the connection; repeatable", paired)
    .option("--config <key=value>", "initial value in connection_config; repeatable", paired)
    .summary("create a link or a code for an end user to connect an account")
    .action(
      act((session, integration: string, given: ConnectCommandOptions) =>
        given.device === true ? byCode(session, integration, given) : byLink(session, integration, given),
      ),
    );
}

async function byCode(session: CommandSession, integration: string, given: ConnectCommandOptions): Promise<number> {
  const { client, output, environment } = session;
  const { id = "", scope = [], endUser, tag, config } = given;
  const { authorization: begun } = await client(ConnectSessionService).beginDeviceAuthorization({
    environment,
    integration,
    connectionId: id,
    userScopes: [...scope],
    ...(config === undefined ? {} : { connectionConfig: { ...config } }),
    ...(endUser === undefined ? {} : { endUser: { id: endUser } }),
    tags: { ...tag },
  });
  if (begun === undefined) throw new Error("the answer holds no device authorization");
  // Standard output may go to a program; this note is for the person.
  await output.note(`Open ${begun.verificationUri} and enter the code ${begun.userCode}`);
  if (begun.verificationUriComplete !== "") await output.note(`or open ${begun.verificationUriComplete}`);
  const ended = await untilDecided(session, begun);
  const isConnected = ended.state === DeviceAuthorization_State.CONNECTED;
  await output.done(
    DeviceAuthorizationSchema,
    ended,
    isConnected ? connectedText(ended.connection, ended.missingScopes) : `${ended.message} (${ended.code})`,
  );
  return isConnected ? exitCodes.ok : exitCodes.failed;
}

async function untilDecided(
  { client, terminal }: CommandSession,
  begun: DeviceAuthorization,
): Promise<DeviceAuthorization> {
  for (let seen = begun; ; ) {
    if (seen.state !== DeviceAuthorization_State.PENDING) return seen;
    await sleep(lookAgainMs, undefined, { signal: terminal.signal });
    const { authorization } = await client(ConnectSessionService).getDeviceAuthorization({ id: begun.id });
    seen = authorization ?? seen;
  }
}

/** Creates a link for an existing connection. */
export const reconnectByLink = (
  session: CommandSession,
  integration: string,
  given: Pick<ConnectCommandOptions, "scope" | "wait"> & { readonly id: string },
): Promise<number> => byLink(session, integration, given);

async function byLink(session: CommandSession, integration: string, given: ConnectCommandOptions): Promise<number> {
  const { client, output, environment } = session;
  const { id, scope = [], endUser, tag, config, wait = false } = given;
  if (id === undefined && endUser === undefined && tag === undefined)
    throw new UsageMistake(
      "give the end user with --end-user ID or --tag key=value, or an existing connection with --id",
    );
  const created = await client(ConnectSessionService).createConnectSession({
    environment,
    ...(id === undefined ? { allowedIntegrations: [integration] } : { reconnect: { environment, integration, id } }),
    integrationDefaults: {
      [integration]: {
        userScopes: [...scope],
        ...(config === undefined ? {} : { connectionConfig: { ...config } }),
      },
    },
    ...(endUser === undefined ? {} : { endUser: { id: endUser } }),
    tags: { ...tag },
  });
  if (!wait || created.session === undefined) {
    await output.done(CreateConnectSessionResponseSchema, created, created.connectLink);
    return exitCodes.ok;
  }
  await output.note(`Open ${created.connectLink}`);
  await untilOver(session, created.session);
  const connection = await connectionOf(session, created.session, { integration, id });
  if (connection === undefined) {
    await output.note("The link expired without a connection.");
    return exitCodes.failed;
  }
  await output.done(ConnectionSchema, connection, connectedText(connection.ref, connection.missingScopes));
  return exitCodes.ok;
}

/** Waits for the end of a session: its connection was committed, it expired, or it was deleted. */
async function untilOver({ client, terminal }: CommandSession, { id }: ConnectSession): Promise<void> {
  for (;;) {
    await sleep(lookAgainMs, undefined, { signal: terminal.signal });
    try {
      await client(ConnectSessionService).getConnectSession({ id });
    } catch (error) {
      if (error instanceof ConnectError && error.code === Code.NotFound) return;
      throw error;
    }
  }
}

interface ConnectionTarget {
  readonly integration: string;
  readonly id: string | undefined;
}

/**
 * Returns the latest connection that the link can have made: of its integration, for its end user, with its tags, and
 * newer than the session. Sessions do not record their connection, so a second link for the same person, used at the
 * same time, cannot be told apart.
 */
async function connectionOf(
  { client, environment }: CommandSession,
  { revision, tags, endUser }: ConnectSession,
  { integration, id }: ConnectionTarget,
): Promise<Connection | undefined> {
  const wanted = { ...tags, ...(endUser === undefined ? {} : { end_user_id: endUser.id }) };
  const filter = { integrations: [integration], tags: id === undefined ? wanted : {}, id: id ?? "" };
  const pages = pagesOf({
    maxPageSize: pageSize,
    limit: undefined,
    fetch: async (page) => {
      const { connections, nextPageToken } = await client(ConnectionService).listConnections({
        environment,
        filter,
        ...page,
      });
      return { items: connections, nextPageToken };
    },
  });
  let last: Connection | undefined;
  for await (const page of pages) {
    for (const one of page) {
      if (one.revision > revision && (last === undefined || one.revision > last.revision)) last = one;
    }
  }
  return last;
}

const connectedText = (ref: Connection["ref"], missingScopes: readonly string[]): string =>
  `connected ${nameOf(ref)}${missingScopes.length === 0 ? "" : `; not granted: ${missingScopes.join(" ")}`}`;
