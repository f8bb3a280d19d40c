import type { Command } from "commander";
import {
  type Connection_State,
  ConnectionSchema,
  ConnectionService,
  DeleteConnectionResponseSchema,
  DeleteResultSchema,
  GetConnectionResponseSchema,
} from "../../../gen/latchkey/v1/connection_pb.ts";
import type { Act, CommandSession } from "../../session.ts";
import { exitCodes } from "../../terminal/exit-codes.ts";
import { readJsonArgument } from "../../terminal/input.ts";
import { readJsonObject } from "../../terminal/json-object.ts";
import { moment } from "../../terminal/moment.ts";
import { count, listed, paired, revision } from "../../terminal/option-values.ts";
import { type Extent, pagesOf } from "../../terminal/paging.ts";
import { UsageMistake } from "../../terminal/usage-mistake.ts";
import { addImport } from "./import-command.ts";
import { addMetadata } from "./metadata.ts";
import { type ConnectionName, connectionName, connectionNames, nameOf, refOf } from "./names.ts";
import { stateNames, statesNamed, stateText, stateTone } from "./states.ts";
import { addWatch } from "./watch.ts";

/** Default length of a list: more than a screen, but quick to fetch. */
const defaultLimit = 100;
const maxPageSize = 2_000;
const maxBatch = 1_000;

interface ConnectionListOptions extends Extent {
  readonly integration?: readonly string[];
  readonly tag?: Readonly<Record<string, string>>;
  readonly search?: string;
  readonly id?: string;
  readonly state?: readonly Connection_State[];
}

interface Changes {
  readonly tag?: Readonly<Record<string, string>>;
  readonly tags: boolean;
  readonly webhookUrlOverride?: string;
  readonly connectionConfig?: string;
  readonly expectedRevision?: bigint;
}

/** Adds the `connections` commands. */
export function addConnections(program: Command, act: Act): void {
  const group = program.command("connections").summary("end users' authorised links to integrations");
  addList(group, act);
  addGet(group, act);
  addImport(group, act);
  addUpdate(group, act);
  addMetadata(group, act);
  addDelete(group, act);
  addWatch(group, act);
}

function addList(group: Command, act: Act): void {
  group
    .command("list")
    .option("--integration <key>", "only those of this integration; repeatable", listed)
    .option("--tag <key=value>", "only those with this tag; repeatable, all must hold", paired)
    .option("--search <text>", "only those whose id, or end user's id, address or name, contains it")
    .option("--id <connection>", "only those with this id, in whichever integration")
    .option("--state <state>", `only those in this state: ${stateNames.join(", ")}; repeatable`, statesNamed)
    .option("--limit <count>", `at most this many (default: ${defaultLimit})`, count)
    .option("--all", "all of them")
    .summary("an environment's connections, without credentials")
    .action(
      act(
        async (
          { client, output, environment },
          { integration = [], tag, search = "", id = "", state = [], limit, all }: ConnectionListOptions,
        ) => {
          const filter = { integrations: [...integration], tags: { ...tag }, search, id, states: [...state] };
          const most = limit ?? (all === true ? undefined : defaultLimit);
          let more = false;
          const pages = pagesOf({
            maxPageSize,
            limit: most,
            onMore: () => (more = true),
            fetch: async (page) => {
              const request = { environment, filter, ...page };
              const { connections, nextPageToken } = await client(ConnectionService).listConnections(request);
              return { items: connections, nextPageToken };
            },
          });
          await output.many({
            schema: ConnectionSchema,
            none: "no connections",
            pages,
            columns: [
              { title: "CONNECTION", text: ({ ref }) => nameOf(ref) },
              { title: "PROVIDER", text: ({ provider }) => provider },
              { title: "STATE", text: stateText, tone: stateTone },
              {
                title: "TAGS",
                text: ({ tags }) =>
                  Object.entries(tags)
                    .map(([key, value]) => `${key}=${value}`)
                    .join(","),
              },
              { title: "CREATED", text: ({ createdAt }) => moment(createdAt) },
            ],
          });
          if (more) await output.note(`There may be more than these ${most}: --all lists them, --limit so many.`);
        },
      ),
    );
}

function addGet(group: Command, act: Act): void {
  group
    .command("get")
    .argument("<integration/connection>", "such as calendar/ada", connectionName)
    .option("--credentials", "show its credentials, made fresh first; the key needs credentials:read")
    .option("--refresh-token", "show the refresh token among them")
    .summary("one connection")
    .action(
      act(
        async (session, name: ConnectionName, given: { readonly credentials?: true; readonly refreshToken?: true }) => {
          const { client, output } = session;
          const includeCredentials = given.credentials ?? false;
          const includeRefreshToken = given.refreshToken ?? false;
          if (includeRefreshToken && !includeCredentials)
            throw new UsageMistake("--refresh-token goes with --credentials");
          const request = { ref: refOf(session, name), includeCredentials, includeRefreshToken };
          const answer = await client(ConnectionService).getConnection(request);
          if (includeCredentials) return output.one(GetConnectionResponseSchema, answer);
          if (answer.connection !== undefined) await output.one(ConnectionSchema, answer.connection);
        },
      ),
    );
}

function addUpdate(group: Command, act: Act): void {
  group
    .command("update")
    .argument("<integration/connection>", "such as calendar/ada", connectionName)
    .option("--tag <key=value>", "a tag; repeatable, replaces all", paired)
    .option("--no-tags", "take all tags away")
    .option("--webhook-url-override <url>", "where its forwards go; empty: where the environment's go")
    .option("--connection-config <json>", "replaces connection_config: JSON, @file or - for what is piped in")
    .option("--expected-revision <revision>", "refuse when it has changed since", revision)
    .summary("change what is given, and nothing else")
    .action(
      act(async (session, name: ConnectionName, given: Changes) => {
        const { client, output, terminal } = session;
        const { webhookUrlOverride, expectedRevision = 0n } = given;
        const tags = given.tags ? given.tag : {};
        const connectionConfig =
          given.connectionConfig === undefined
            ? undefined
            : readJsonObject(await readJsonArgument(given.connectionConfig, terminal), "connection_config");
        const paths = [
          ...(tags === undefined ? [] : ["tags"]),
          ...(webhookUrlOverride === undefined ? [] : ["webhook_url_override"]),
          ...(connectionConfig === undefined ? [] : ["connection_config"]),
        ];
        if (paths.length === 0)
          throw new UsageMistake("say what to change: --tag, --webhook-url-override or --connection-config");
        const { connection } = await client(ConnectionService).updateConnection({
          connection: {
            ref: refOf(session, name),
            tags: { ...tags },
            webhookUrlOverride: webhookUrlOverride ?? "",
            ...(connectionConfig === undefined ? {} : { connectionConfig }),
          },
          updateMask: { paths },
          expectedRevision,
        });
        if (connection !== undefined) await output.one(ConnectionSchema, connection);
      }),
    );
}

function addDelete(group: Command, act: Act): void {
  group
    .command("delete")
    .argument("<integration/connection...>", "such as calendar/ada", connectionNames)
    .option("--expected-revision <revision>", "of a single one: refuse when it has changed since", revision)
    .summary("delete connections with their credentials")
    .action(
      act(
        async (
          session,
          names: readonly ConnectionName[],
          { expectedRevision }: { readonly expectedRevision?: bigint },
        ) => {
          const [first, ...others] = names;
          if (first === undefined) throw new UsageMistake("name a connection");
          if (others.length > 0 && expectedRevision !== undefined)
            throw new UsageMistake("--expected-revision is for a single connection");
          if (others.length > 0) return deleteMany(session, names);
          const request = { ref: refOf(session, first), expectedRevision: expectedRevision ?? 0n };
          const answer = await session.client(ConnectionService).deleteConnection(request);
          await session.output.done(DeleteConnectionResponseSchema, answer, `deleted connection ${nameOf(first)}`);
          return exitCodes.ok;
        },
      ),
    );
}

/** Deletes connections individually: one that cannot be deleted does not stop the others. */
async function deleteMany(session: CommandSession, names: readonly ConnectionName[]): Promise<number> {
  const { client, output } = session;
  let failed = 0;
  for (let at = 0; at < names.length; at += maxBatch) {
    const deletions = names.slice(at, at + maxBatch).map((name) => ({ ref: refOf(session, name) }));
    const { results } = await client(ConnectionService).batchDeleteConnections({ deletions });
    for (const result of results) {
      const { ref, problem } = result;
      if (problem !== undefined) failed += 1;
      const fate =
        problem === undefined
          ? `deleted connection ${nameOf(ref)}`
          : `kept ${nameOf(ref)}: ${problem.message} (${problem.code})`;
      await output.done(DeleteResultSchema, result, fate);
    }
  }
  return failed === 0 ? exitCodes.ok : exitCodes.partial;
}
