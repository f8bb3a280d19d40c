import type { DescMessage, MessageShape } from "@bufbuild/protobuf";
import type { Command } from "commander";
import type { Act, CommandSession } from "../session.ts";
import { count, revision } from "../terminal/option-values.ts";
import { type PageAnswer, pagesOf } from "../terminal/paging.ts";
import type { Column } from "../terminal/table.ts";

/** The page of a list to fetch. */
export interface ListPageRequest {
  readonly pageSize: number;
  readonly pageToken: string;
}

/** A list of objects. `A` holds the arguments of the command, and its options last. */
interface ListCommand<S extends DescMessage, R extends ListResponse, A extends readonly unknown[]> {
  readonly schema: S;
  readonly rpc: (session: CommandSession, page: ListPageRequest, ...args: A) => Promise<R>;
  readonly items: (response: R) => readonly MessageShape<S>[];
  readonly columns: readonly Column<MessageShape<S>>[];
  /** Text for an empty list: `no connections`. */
  readonly none: string;
  /** Adds `--limit` and `--all`. Without it, the whole list is printed. */
  readonly defaultLimit?: number;
  readonly maxPageSize?: number;
}

interface ListResponse {
  /** Empty on the last page; absent if the list has a single page. */
  readonly nextPageToken?: string;
}

/** The requested part of a list. */
export interface ListExtent {
  readonly limit?: number;
  readonly all?: boolean;
}

/** Adds `--limit` and `--all`. */
export const withExtent = (command: Command, defaultLimit: number): Command =>
  command
    .option("--limit <count>", `maximum number of results (default: ${defaultLimit})`, count)
    .option("--all", "list all results");

/** Declares a command that prints a list. */
export function listCommand<S extends DescMessage, R extends ListResponse, A extends readonly unknown[]>(
  command: Command,
  act: Act,
  { rpc, items, ...list }: ListCommand<S, R, A>,
): void {
  if (list.defaultLimit !== undefined) withExtent(command, list.defaultLimit);
  command.action(
    act((session: CommandSession, ...args: A) => {
      const fetch = async (page: ListPageRequest) => {
        const response = await rpc(session, page, ...args);
        return { items: items(response), nextPageToken: response.nextPageToken ?? "" };
      };
      return printList(session, { ...list, fetch }, command.opts<ListExtent>());
    }),
  );
}

interface PrintedList<S extends DescMessage>
  extends Pick<ListCommand<S, ListResponse, []>, "schema" | "columns" | "none" | "defaultLimit" | "maxPageSize"> {
  readonly fetch: (page: ListPageRequest) => Promise<PageAnswer<MessageShape<S>>>;
}

/** Prints a list up to the limit, and a note if there may be more. */
export async function printList<S extends DescMessage>(
  { output }: CommandSession,
  { schema, none, columns, fetch, defaultLimit, maxPageSize = 1_000 }: PrintedList<S>,
  { limit, all }: ListExtent,
): Promise<void> {
  const most = limit ?? (all === true ? undefined : defaultLimit);
  let hasMore = false;
  const pages = pagesOf({ fetch, maxPageSize, limit: most, onMore: () => (hasMore = true) });
  await output.many({ schema, none, pages, columns });
  if (hasMore) await output.note(`Showing the first ${most}; there may be more. Use --all, or a higher --limit.`);
}

/** Adds the action of a command that prints the object that a call returns. */
export function objectCommand<S extends DescMessage, A extends readonly unknown[]>(
  command: Command,
  act: Act,
  schema: S,
  rpc: (session: CommandSession, ...args: A) => Promise<MessageShape<S> | undefined>,
): void {
  command.action(
    act(async (session: CommandSession, ...args: A) => {
      const object = await rpc(session, ...args);
      if (object !== undefined) await session.output.one(schema, object);
    }),
  );
}

export interface RevisionOption {
  readonly expectedRevision?: bigint;
}

export const withExpectedRevision = (command: Command): Command =>
  command.option("--expected-revision <revision>", "fail if the object has changed since this revision", revision);
