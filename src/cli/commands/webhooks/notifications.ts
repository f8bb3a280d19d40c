import type { Command } from "commander";
import {
  type Forward,
  GetNotificationResponseSchema,
  type Notification,
  NotificationSchema,
  Notification_Proof as Proof,
  WebhookService,
} from "../../../gen/latchkey/v1/webhook_pb.ts";
import type { Act } from "../../session.ts";
import { escapeControl } from "../../terminal/escape-control.ts";
import { formatTime } from "../../terminal/format.ts";
import { past } from "../../terminal/option-values.ts";
import type { Paint } from "../../terminal/paint.ts";
import { createTable } from "../../terminal/table.ts";
import { UsageMistake } from "../../terminal/usage-mistake.ts";
import { listCommand } from "../command-kinds.ts";
import { type ConnectionName, connectionName } from "../connections/names.ts";
import { forwardStateText, forwardStateTone } from "./forward-states.ts";
import { bodyText, bound, connectionsOf, messageOf, subjectOf, textOf } from "./names.ts";

interface NotificationListOptions {
  readonly integration?: string;
  readonly connection?: ConnectionName;
  readonly unmatched?: boolean;
  readonly since?: number;
  readonly until?: number;
  readonly kind?: string;
  readonly text?: string;
}

/** Adds `webhooks list` and `webhooks show`, for received notifications. */
export function addNotifications(group: Command, act: Act): void {
  const list = group
    .command("list")
    .summary("list the webhooks that providers sent, newest first")
    .option("--integration <key>", "only webhooks of this integration")
    .option("--connection <integration/connection>", "only webhooks for this connection", connectionName)
    .option("--unmatched", "only webhooks that match no connection")
    .option("--since <time>", "only webhooks received since this time: 2h (ago), or 2030-01-01T00:00:00Z", past)
    .option("--until <time>", "only webhooks received before this time", past)
    .option("--kind <kind>", "only webhooks of this kind of event, for example push")
    .option("--text <text>", "only webhooks with this text in their message ID, a header or the body");
  listCommand(list, act, {
    schema: NotificationSchema,
    none: "no webhooks",
    defaultLimit: 50,
    rpc: ({ client, environment }, page, given: NotificationListOptions) =>
      client(WebhookService).listNotifications({ environment, ...filterOf(given), ...page }),
    items: ({ notifications }) => notifications,
    columns: [
      { title: "NOTIFICATION", text: ({ id }) => id },
      { title: "WHEN", time: ({ receivedAt }) => receivedAt },
      { title: "INTEGRATION", text: ({ integration }) => integration },
      { title: "KIND", text: ({ kinds }) => kinds.join(",") },
      { title: "MESSAGE", text: messageOf },
      { title: "RULE", text: ({ matchedRule }) => (matchedRule < 0 ? "" : String(matchedRule)) },
      {
        title: "CONNECTIONS",
        text: (notification) => (notification.matches.length === 0 ? "none" : connectionsOf(notification)),
        tone: ({ matches }) => (matches.length === 0 ? "warning" : "plain"),
      },
    ],
  });

  group
    .command("get")
    .alias("show")
    .argument("<notification>", "id of the webhook, from `webhooks list`")
    .summary("show a webhook with its headers, body and deliveries")
    .action(
      act(async ({ client, output, environment }, id: string) => {
        const answer = await client(WebhookService).getNotification({ environment, id });
        if (output.json) return output.one(GetNotificationResponseSchema, answer);
        if (answer.notification === undefined) return;
        await output.line(story(answer.notification, answer.forwards, output.paint));
      }),
    );
}

function filterOf({ integration, connection, unmatched = false, since, until, ...found }: NotificationListOptions) {
  if (connection !== undefined && integration !== undefined && integration !== connection.integration)
    throw new UsageMistake("--integration and --connection name different integrations");
  if (connection !== undefined && unmatched)
    throw new UsageMistake("--unmatched and --connection cannot be used together");
  return {
    integration: connection?.integration ?? integration ?? "",
    connectionId: connection?.id ?? "",
    unmatched,
    since: bound(since),
    until: bound(until),
    kind: found.kind ?? "",
    text: found.text ?? "",
  };
}

/** Formats a notification: its subject, its contents, and its forwards. */
function story(notification: Notification, forwards: readonly Forward[], paint: Paint): string {
  const { id, integration, environment, headers, body, receivedAt } = notification;
  const message = messageOf(notification);
  return [
    `${paint("bold", escapeControl(`webhook ${id}`))}  ${escapeControl(`of ${integration} in ${environment}`)}`,
    paint("dim", escapeControl(`received ${formatTime(receivedAt)}${message === "" ? "" : `, message ${message}`}`)),
    proofOf(notification, paint),
    matchOf(notification, paint),
    "",
    ...headers.map(({ name, value }) => `${paint("dim", `${escapeControl(name)}:`)} ${escapeControl(textOf(value))}`),
    ...(body.length === 0 ? [] : ["", bodyText(body)]),
    "",
    forwards.length === 0
      ? "No deliveries: the integration does not deliver its webhooks, or the deliveries were deleted."
      : createTable(columns, paint).draw(forwards).trimEnd(),
  ].join("\n");
}

function matchOf(notification: Notification, paint: Paint): string {
  const { matches, matchedRule, matchedField, channelId, assignedBy } = notification;
  if (matches.length === 0) return paint("warning", "matches no connection");
  const connections = escapeControl(connectionsOf(notification));
  if (assignedBy !== "") return `assigned to ${connections} by ${escapeControl(assignedBy)}`;
  if (matchedRule < 0 && channelId !== "") return `matches ${connections} by its channel ${escapeControl(channelId)}`;
  const field = matchedField === "" ? "" : `, ${escapeControl(matchedField)}`;
  return `matches ${connections} by rule ${matchedRule}${field}`;
}

/** What is missing to check a sender. */
const lackOf = (scheme: string): string =>
  scheme === "channel_token"
    ? "another client made its channel, so its token is unknown"
    : "the integration has no webhook secret";

function proofOf({ proof, proofScheme }: Notification, paint: Paint): string {
  const scheme = escapeControl(proofScheme);
  switch (proof) {
    case Proof.VALID:
      return `sender proven (${scheme})`;
    case Proof.NOT_SIGNED:
      return "sender not proven: the provider signs no webhooks";
    case Proof.NO_SECRET:
      return paint("warning", `sender not proven (${scheme}): ${lackOf(proofScheme)}`);
    case Proof.TEST:
      return "a test webhook, sent by hand";
    default:
      return "sender's proof not recorded";
  }
}

const columns = [
  { title: "FORWARD", text: ({ id }: Forward) => id },
  { title: "CONNECTION", text: subjectOf },
  { title: "STATE", text: forwardStateText, tone: forwardStateTone },
  { title: "ATTEMPTS", text: ({ attemptCount }: Forward) => String(attemptCount) },
  { title: "DESTINATION", text: ({ destination }: Forward) => destination },
] as const;
