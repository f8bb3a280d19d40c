import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { type Command, Option } from "commander";
import { type Record, RecordSchema, SyncService } from "../../../gen/latchkey/v1/sync_pb.ts";
import type { Act, CommandSession } from "../../session.ts";
import { formatTime } from "../../terminal/format.ts";
import { count, listed, past } from "../../terminal/option-values.ts";
import { createOutput } from "../../terminal/output.ts";
import { pagesOf } from "../../terminal/paging.ts";
import type { Tone } from "../../terminal/paint.ts";
import { UsageMistake } from "../../terminal/usage-mistake.ts";
import type { ListExtent } from "../command-kinds.ts";
import { type ConnectionName, connectionName, refOf } from "../connections/names.ts";
import { gist } from "../webhooks/names.ts";

const defaultLimit = 100;
const maxPageSize = 10_000;

interface RecordListOptions extends ListExtent {
  readonly variant?: string;
  readonly cursor?: string;
  readonly action?: string;
  readonly id?: readonly string[];
  readonly since?: number;
}

/** Adds `syncs records`: lists records that the syncs of a connection saved, in order of change. */
export function addRecords(group: Command, act: Act): void {
  group
    .command("records")
    .argument("<integration/connection>", "for example calendar/ada", connectionName)
    .argument("<model>", "name of the model, for example Event")
    .option("--variant <name>", "variant of the sync")
    .addOption(
      new Option("--action <action>", "only records whose last change was this").choices([
        "added",
        "updated",
        "deleted",
      ]),
    )
    .option("--id <id>", "only the record with this id; repeatable", listed)
    .option("--since <time>", "only records that changed after this time: 2h (ago), or 2030-01-01T00:00:00Z", past)
    .option("--cursor <cursor>", "continue after the record with this cursor")
    .option("--limit <count>", `maximum number of results (default: ${defaultLimit})`, count)
    .option("--all", "list all records, as JSON, one per line")
    .summary("list saved records, in the order of their changes")
    .action(act(list));
}

async function list(
  session: CommandSession,
  name: ConnectionName,
  model: string,
  given: RecordListOptions,
): Promise<void> {
  const { client, terminal } = session;
  const { variant = "", cursor = "", action, id = [], since, limit, all = false } = given;
  if (all && limit !== undefined) throw new UsageMistake("--all and --limit cannot be used together");
  const output = all ? createOutput(terminal, { json: true, paint: session.output.paint }) : session.output;
  const request = {
    connection: refOf(session, name),
    model,
    variant,
    actions: action === undefined ? [] : [action.toUpperCase()],
    ids: [...id],
    ...(since !== undefined && { modifiedAfter: timestampFromMs(since) }),
  };
  let more = false;
  let last = cursor;
  await output.many({
    schema: RecordSchema,
    none: "no records",
    pages: pagesOf({
      maxPageSize,
      limit: all ? undefined : (limit ?? defaultLimit),
      onMore: () => (more = true),
      fetch: async ({ pageSize, pageToken }) => {
        const pageRequest = { ...request, pageSize, pageToken: pageToken || cursor };
        const { records, nextPageToken } = await client(SyncService).listRecords(pageRequest);
        last = records.at(-1)?.cursor ?? last;
        return { items: records, nextPageToken };
      },
    }),
    columns: [
      { title: "ID", text: ({ id: of }) => of },
      { title: "LAST", text: ({ lastAction }) => lastAction.toLowerCase(), tone: actionTone },
      { title: "FIRST SEEN", time: ({ firstSeenAt }) => firstSeenAt },
      { title: "CHANGED", time: ({ lastModifiedAt }) => lastModifiedAt },
      { title: "DATA", text: dataText },
    ],
  });
  if (more) await output.note(`There may be more: use --cursor ${last} to continue, or --all.`);
}

const actionTone = ({ lastAction }: Record): Tone => (lastAction === "DELETED" ? "dim" : "plain");

const dataText = ({ data, prunedAt }: Record): string =>
  prunedAt === undefined ? gist(Buffer.from(JSON.stringify(data ?? {}))) : `emptied ${formatTime(prunedAt)}`;
