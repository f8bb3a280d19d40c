import type { Command } from "commander";
import {
  ConnectionSchema,
  ConnectionService,
  DeleteConnectionResponseSchema,
  DeleteResultSchema,
  GetConnectionResponseSchema,
  type Revocation,
} from "../../../gen/latchkey/v1/connection_pb.ts";
import type { Act, CommandSession } from "../../session.ts";
import { requireYes, withYes, type YesOption } from "../../terminal/confirm.ts";
import { exitCodes } from "../../terminal/exit-codes.ts";
import { formatCount } from "../../terminal/format.ts";
import { readJsonArgument } from "../../terminal/input.ts";
import { readJsonObject } from "../../terminal/json-object.ts";
import { paired, revision } from "../../terminal/option-values.ts";
import { UsageMistake } from "../../terminal/usage-mistake.ts";
import type { RevisionOption } from "../command-kinds.ts";
import { addChoose } from "./choose.ts";
import { addCount } from "./count.ts";
import { addImport } from "./import-command.ts";
import { addList } from "./list.ts";
import { addMetadata } from "./metadata.ts";
import { type ConnectionName, connectionName, connectionNames, nameOf, refOf } from "./names.ts";
import { addRefresh } from "./refresh.ts";
import { addRevocations, tokensText } from "./revocations.ts";
import { addWatch } from "./watch.ts";

const maxBatch = 1_000;

interface ConnectionChanges extends RevisionOption {
  readonly tag?: Readonly<Record<string, string>>;
  readonly tags: boolean;
  readonly webhookUrlOverride?: string;
  readonly connectionConfig?: string;
}

/** Adds the `connections` commands. */
export function addConnections(program: Command, act: Act): void {
  const group = program.command("connections").summary("manage connections: the accounts of your end users");
  addList(group, act);
  addCount(group, act);
  addGet(group, act);
  addImport(group, act);
  addUpdate(group, act);
  addMetadata(group, act);
  addRefresh(group, act);
  addChoose(group, act);
  addDelete(group, act);
  addRevocations(group, act);
  addWatch(group, act);
}

function addGet(group: Command, act: Act): void {
  group
    .command("get")
    .argument("<integration/connection>", "for example calendar/ada", connectionName)
    .option("--credentials", "include the credentials, refreshed if needed; requires the scope credentials:read")
    .option("--refresh-token", "include the refresh token, with --credentials")
    .summary("show a connection")
    .action(
      act(
        async (session, name: ConnectionName, given: { readonly credentials?: true; readonly refreshToken?: true }) => {
          const { client, output } = session;
          const includeCredentials = given.credentials ?? false;
          const includeRefreshToken = given.refreshToken ?? false;
          if (includeRefreshToken && !includeCredentials)
            throw new UsageMistake("--refresh-token requires --credentials");
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
    .argument("<integration/connection>", "for example calendar/ada", connectionName)
    .option("--tag <key=value>", "a tag; repeatable, replaces all tags", paired)
    .option("--no-tags", "remove all tags")
    .option("--webhook-url-override <url>", "URL for its deliveries; empty means the environment's forward URL")
    .option("--connection-config <json>", "new connection_config: JSON, @file, or - for stdin")
    .option("--expected-revision <revision>", "fail if the connection has changed since this revision", revision)
    .summary("change a connection; settings that you leave out stay the same")
    .action(
      act(async (session, name: ConnectionName, given: ConnectionChanges) => {
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
          throw new UsageMistake("nothing to change: give --tag, --webhook-url-override or --connection-config");
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
  withYes(group.command("delete"))
    .argument("<integration/connection...>", "for example calendar/ada", connectionNames)
    .option(
      "--expected-revision <revision>",
      "fail if the connection has changed since this revision; for a single connection",
      revision,
    )
    .option("--keep-grant", "do not revoke the grant at the provider")
    .option("--no-keep-grant", "revoke the grant, even if the integration keeps grants")
    .summary("delete connections and their credentials, and revoke their grants at the provider")
    .action(
      act(async (session, names: readonly ConnectionName[], given: DeletionOptions) => {
        const { expectedRevision, keepGrant, yes } = given;
        const choice = keepGrant === undefined ? {} : { keepGrant };
        const [first, ...others] = names;
        if (first === undefined) throw new UsageMistake("give at least one connection");
        if (others.length > 0 && expectedRevision !== undefined)
          throw new UsageMistake("--expected-revision needs exactly one connection");
        const shown = others.length === 0 ? nameOf(first) : formatCount(names.length, "connection");
        await requireYes(session.terminal, `Delete ${shown} and the credentials?`, yes);
        if (others.length > 0) return deleteMany(session, names, choice);
        const request = { ref: refOf(session, first), expectedRevision: expectedRevision ?? 0n, ...choice };
        const answer = await session.client(ConnectionService).deleteConnection(request);
        await session.output.done(DeleteConnectionResponseSchema, answer, deletionText(first, answer.revocation));
        return exitCodes.ok;
      }),
    );
}

interface DeletionOptions extends RevisionOption, YesOption {
  readonly keepGrant?: boolean;
}

/** `deleted connection calendar/ada; at the provider: refresh_token pending`. */
function deletionText(name: Parameters<typeof nameOf>[0], revocation: Revocation | undefined): string {
  const deleted = `deleted connection ${nameOf(name)}`;
  return revocation === undefined ? deleted : `${deleted}; at the provider: ${tokensText(revocation)}`;
}

/** Deletes connections individually: one that cannot be deleted does not stop the others. */
async function deleteMany(
  session: CommandSession,
  names: readonly ConnectionName[],
  choice: Pick<DeletionOptions, "keepGrant">,
): Promise<number> {
  const { client, output } = session;
  let failed = 0;
  for (let at = 0; at < names.length; at += maxBatch) {
    const deletions = names.slice(at, at + maxBatch).map((name) => ({ ref: refOf(session, name), ...choice }));
    const { results } = await client(ConnectionService).batchDeleteConnections({ deletions });
    for (const result of results) {
      const { ref, problem } = result;
      if (problem !== undefined) failed += 1;
      const sentence =
        problem === undefined
          ? deletionText(ref, result.revocation)
          : `kept ${nameOf(ref)}: ${problem.message} (${problem.code})`;
      await output.done(DeleteResultSchema, result, sentence);
    }
  }
  return failed === 0 ? exitCodes.ok : exitCodes.partial;
}
