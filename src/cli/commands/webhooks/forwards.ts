import type { Command } from "commander";
import {
  type Attempt,
  type Forward,
  type Forward_State,
  ForwardSchema,
  GetForwardResponseSchema,
  WebhookService,
} from "../../../gen/latchkey/v1/webhook_pb.ts";
import type { Act } from "../../session.ts";
import { escapeControl } from "../../terminal/escape-control.ts";
import { formatDuration, formatTime } from "../../terminal/format.ts";
import { past } from "../../terminal/option-values.ts";
import type { Paint, Tone } from "../../terminal/paint.ts";
import { createTable } from "../../terminal/table.ts";
import { UsageMistake } from "../../terminal/usage-mistake.ts";
import { listCommand } from "../command-kinds.ts";
import { type ConnectionName, connectionName } from "../connections/names.ts";
import { forwardStates, forwardStatesNamed, forwardStateText, forwardStateTone } from "./forward-states.ts";
import { bodyText, bound, gist, subjectOf } from "./names.ts";

export interface ForwardsFilter {
  readonly integration?: string;
  readonly connection?: ConnectionName;
  readonly state?: readonly Forward_State[];
  readonly destination?: string;
  readonly since?: number;
  readonly until?: number;
}

/** Adds `webhooks forwards` and `webhooks forward`. */
export function addForwards(group: Command, act: Act): void {
  const list = withForwardFilter(group.command("forwards")).summary(
    "list deliveries of webhooks and events to your application, newest first",
  );
  listCommand(list, act, {
    schema: ForwardSchema,
    none: "no deliveries",
    defaultLimit: 50,
    rpc: ({ client, environment }, page, given: ForwardsFilter) =>
      client(WebhookService).listForwards({ environment, filter: forwardFilterOf(given), ...page }),
    items: ({ forwards }) => forwards,
    columns: [
      { title: "FORWARD", text: ({ id }) => id },
      { title: "WHEN", time: ({ createdAt }) => createdAt },
      { title: "TYPE", text: ({ type }) => type },
      { title: "CONNECTION", text: subjectOf },
      { title: "STATE", text: forwardStateText, tone: forwardStateTone },
      { title: "ATTEMPTS", text: ({ attemptCount }) => String(attemptCount) },
      { title: "NEXT", time: ({ nextAttemptAt }) => nextAttemptAt },
      { title: "DESTINATION", text: ({ destination }) => destination },
    ],
  });

  group
    .command("forward")
    .argument("<forward>", "id of the delivery: its webhook-id header")
    .summary("show a delivery with its body and attempts")
    .action(
      act(async ({ client, output, environment }, id: string) => {
        const answer = await client(WebhookService).getForward({ environment, id });
        if (output.json) return output.one(GetForwardResponseSchema, answer);
        if (answer.forward !== undefined) await output.line(story(answer.forward, answer.attempts, output.paint));
      }),
    );
}

export const withForwardFilter = (command: Command): Command =>
  command
    .option("--integration <key>", "only deliveries of this integration")
    .option("--connection <integration/connection>", "only deliveries of this connection", connectionName)
    .option(
      "--state <state>",
      `only deliveries in this state: ${forwardStates.join(", ")}; repeatable`,
      forwardStatesNamed,
    )
    .option("--destination <url>", "only deliveries to this URL")
    .option("--since <time>", "only deliveries created since this time: 2h (ago), or 2030-01-01T00:00:00Z", past)
    .option("--until <time>", "only deliveries created before this time", past);

/** Converts the filter to the control plane's form. */
export function forwardFilterOf({ integration, connection, state = [], destination, since, until }: ForwardsFilter) {
  if (connection !== undefined && integration !== undefined && integration !== connection.integration)
    throw new UsageMistake("--integration and --connection name different integrations");
  return {
    integration: connection?.integration ?? integration ?? "",
    connectionId: connection?.id ?? "",
    states: [...state],
    destination: destination ?? "",
    since: bound(since),
    until: bound(until),
  };
}

/** Formats a forward: what it is, what is sent, and the result. */
function story(forward: Forward, attempts: readonly Attempt[], paint: Paint): string {
  const { id, type, environment, notificationId, destination, createdAt, nextAttemptAt, body } = forward;
  const about = `${type} of ${subjectOf(forward)} in ${environment}`;
  const origin = notificationId === "" ? "an event of Latchkey" : `a copy of the webhook ${notificationId}`;
  return [
    `${paint("bold", escapeControl(`delivery ${id}`))}  ${escapeControl(about)}  ${paint(forwardStateTone(forward), escapeControl(forwardStateText(forward)))}`,
    paint("dim", escapeControl(`created ${formatTime(createdAt)}, ${origin}`)),
    destination === ""
      ? paint("warning", "no destination: the environment has no forward URL")
      : `to ${escapeControl(destination)}`,
    ...(nextAttemptAt === undefined ? [] : [`next attempt at ${formatTime(nextAttemptAt)}`]),
    "",
    bodyText(body),
    "",
    attempts.length === 0 ? "no attempts yet" : createTable(columns, paint).draw(attempts).trimEnd(),
  ].join("\n");
}

/** A response in time has a status; anything else is an error, possibly after a status. */
const outcomeOf = ({ status, error }: Attempt): string =>
  [...(status === 0 ? [] : [String(status)]), ...(error === "" ? [] : [error])].join(" ");

const outcomeTone = ({ status }: Attempt): Tone => (status >= 200 && status < 300 ? "good" : "bad");

const columns = [
  { title: "ATTEMPT", text: ({ number }: Attempt) => String(number) },
  { title: "WHEN", time: ({ startedAt }: Attempt) => startedAt },
  { title: "TOOK", text: ({ duration }: Attempt) => formatDuration(duration) },
  { title: "OUTCOME", text: outcomeOf, tone: outcomeTone },
  { title: "ANSWER", text: ({ answer }: Attempt) => gist(answer) },
] as const;
