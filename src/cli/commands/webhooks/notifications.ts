import type { Command } from "commander";
import {
  type Forward,
  GetNotificationResponseSchema,
  type Notification,
  NotificationSchema,
  WebhookService,
} from "../../../gen/latchkey/v1/webhook_pb.ts";
import type { Act, CommandSession } from "../../session.ts";
import { moment } from "../../terminal/moment.ts";
import { count, past } from "../../terminal/option-values.ts";
import { type Extent, pagesOf } from "../../terminal/paging.ts";
import type { Paint } from "../../terminal/paint.ts";
import { createTable } from "../../terminal/table.ts";
import { UsageMistake } from "../../terminal/usage-mistake.ts";
import { visible } from "../../terminal/visible.ts";
import { type ConnectionName, connectionName } from "../connections/names.ts";
import { forwardStateText, forwardStateTone } from "./forward-states.ts";
import { bodyText, bound, connectionsOf, messageOf, subjectOf, textOf } from "./names.ts";

const defaultLimit = 50;

interface NotificationListOptions extends Extent {
  readonly integration?: string;
  readonly connection?: ConnectionName;
  readonly unmatched?: boolean;
  readonly since?: number;
  readonly until?: number;
}

/** Adds `webhooks list` and `webhooks show`, for received notifications. */
export function addNotifications(group: Command, act: Act): void {
  group
    .command("list")
    .option("--integration <key>", "only those of this integration")
    .option("--connection <integration/connection>", "only those that concern this connection", connectionName)
    .option("--unmatched", "only those that concern no connection")
    .option("--since <time>", "only those from then on: 2h for as long ago, or 2030-01-01T00:00:00Z", past)
    .option("--until <time>", "only those before then", past)
    .option("--limit <count>", `at most this many (default: ${defaultLimit})`, count)
    .option("--all", "all of them")
    .summary("what providers sent, the newest first")
    .action(act(list));

  group
    .command("show")
    .argument("<notification>", "its id, which `webhooks list` shows")
    .summary("one notification: its headers, its body, and what became of it")
    .action(
      act(async ({ client, output, environment }, id: string) => {
        const answer = await client(WebhookService).getNotification({ environment, id });
        if (output.json) return output.one(GetNotificationResponseSchema, answer);
        if (answer.notification === undefined) return;
        await output.line(story(answer.notification, answer.forwards, output.paint));
      }),
    );
}

async function list({ client, output, environment }: CommandSession, given: NotificationListOptions): Promise<void> {
  const { connection, unmatched = false, since, until, limit, all } = given;
  const integration = connection?.integration ?? given.integration ?? "";
  if (connection !== undefined && given.integration !== undefined && given.integration !== connection.integration)
    throw new UsageMistake("--connection names an integration already, and another one");
  if (connection !== undefined && unmatched)
    throw new UsageMistake("what is --unmatched concerns no connection: leave one of the two out");
  const bounds = { since: bound(since), until: bound(until) };
  const filter = { environment, integration, connectionId: connection?.id ?? "", unmatched, ...bounds };
  const most = limit ?? (all === true ? undefined : defaultLimit);
  let more = false;
  await output.many({
    schema: NotificationSchema,
    none: "no notifications",
    pages: pagesOf({
      maxPageSize: 1_000,
      limit: most,
      onMore: () => (more = true),
      fetch: async (page) => {
        const { notifications, nextPageToken } = await client(WebhookService).listNotifications({ ...filter, ...page });
        return { items: notifications, nextPageToken };
      },
    }),
    columns: [
      { title: "NOTIFICATION", text: ({ id }) => id },
      { title: "WHEN", text: ({ receivedAt }) => moment(receivedAt) },
      { title: "INTEGRATION", text: ({ integration: key }) => key },
      { title: "MESSAGE", text: messageOf },
      { title: "RULE", text: ({ matchedRule }) => (matchedRule < 0 ? "" : String(matchedRule)) },
      {
        title: "CONNECTIONS",
        text: (one) => (one.matches.length === 0 ? "none" : connectionsOf(one)),
        tone: ({ matches }) => (matches.length === 0 ? "warning" : "plain"),
      },
    ],
  });
  if (more) await output.note(`There may be more than these ${most}: --all lists them, --limit so many.`);
}

/** Formats a notification: its subject, its contents, and its forwards. */
function story(notification: Notification, forwards: readonly Forward[], paint: Paint): string {
  const { id, integration, environment, headers, body, receivedAt } = notification;
  const message = messageOf(notification);
  return [
    `${paint("bold", visible(`notification ${id}`))}  ${visible(`of ${integration} in ${environment}`)}`,
    paint("dim", visible(`received ${moment(receivedAt)}${message === "" ? "" : `, message ${message}`}`)),
    matchOf(notification, paint),
    "",
    ...headers.map(({ name, value }) => `${paint("dim", `${visible(name)}:`)} ${visible(textOf(value))}`),
    ...(body.length === 0 ? [] : ["", bodyText(body)]),
    "",
    forwards.length === 0
      ? "It went nowhere: its integration forwards nothing, or its forwards are deleted already."
      : createTable(columns, paint).draw(forwards).trimEnd(),
  ].join("\n");
}

const matchOf = (notification: Notification, paint: Paint): string =>
  notification.matches.length === 0
    ? paint("warning", "concerns no connection that is known here")
    : `concerns ${visible(connectionsOf(notification))} by rule ${notification.matchedRule}`;

const columns = [
  { title: "FORWARD", text: ({ id }: Forward) => id },
  { title: "CONNECTION", text: subjectOf },
  { title: "STATE", text: forwardStateText, tone: forwardStateTone },
  { title: "ATTEMPTS", text: ({ attemptCount }: Forward) => String(attemptCount) },
  { title: "DESTINATION", text: ({ destination }: Forward) => destination },
] as const;
