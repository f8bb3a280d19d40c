import type { Command } from "commander";
import {
  type Attempt,
  type Forward,
  type Forward_State,
  ForwardSchema,
  GetForwardResponseSchema,
  WebhookService,
} from "../../../gen/latchkey/v1/webhook_pb.ts";
import type { Act, CommandSession } from "../../session.ts";
import { took } from "../../terminal/amounts.ts";
import { moment } from "../../terminal/moment.ts";
import { count, past } from "../../terminal/option-values.ts";
import { type Extent, pagesOf } from "../../terminal/paging.ts";
import type { Paint, Tone } from "../../terminal/paint.ts";
import { createTable } from "../../terminal/table.ts";
import { UsageMistake } from "../../terminal/usage-mistake.ts";
import { visible } from "../../terminal/visible.ts";
import { type ConnectionName, connectionName } from "../connections/names.ts";
import { forwardStates, forwardStatesNamed, forwardStateText, forwardStateTone } from "./forward-states.ts";
import { bodyText, bound, gist, subjectOf } from "./names.ts";

const defaultLimit = 50;

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
  withForwardFilter(group.command("forwards"))
    .option("--limit <count>", `at most this many (default: ${defaultLimit})`, count)
    .option("--all", "all of them")
    .summary("what goes to the application: copies of notifications, and events of latchkey's own; the newest first")
    .action(act(list));

  group
    .command("forward")
    .argument("<forward>", "its id, the webhook-id of what the application gets")
    .summary("one forward: what is sent, and each attempt to deliver it")
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
    .option("--integration <key>", "only those of this integration")
    .option("--connection <integration/connection>", "only those of this connection", connectionName)
    .option("--state <state>", `only those that are ${forwardStates.join(", ")}; repeatable`, forwardStatesNamed)
    .option("--destination <url>", "only those to this address")
    .option("--since <time>", "only those made from then on: 2h for as long ago, or 2030-01-01T00:00:00Z", past)
    .option("--until <time>", "only those made before then", past);

/** Converts the filter to the control plane's form. */
export function forwardFilterOf({ integration, connection, state = [], destination, since, until }: ForwardsFilter) {
  if (connection !== undefined && integration !== undefined && integration !== connection.integration)
    throw new UsageMistake("--connection names an integration already, and another one");
  return {
    integration: connection?.integration ?? integration ?? "",
    connectionId: connection?.id ?? "",
    states: [...state],
    destination: destination ?? "",
    since: bound(since),
    until: bound(until),
  };
}

async function list({ client, output, environment }: CommandSession, given: ForwardsFilter & Extent): Promise<void> {
  const filter = forwardFilterOf(given);
  const { limit, all } = given;
  const most = limit ?? (all === true ? undefined : defaultLimit);
  let more = false;
  await output.many({
    schema: ForwardSchema,
    none: "no forwards",
    pages: pagesOf({
      maxPageSize: 1_000,
      limit: most,
      onMore: () => (more = true),
      fetch: async (page) => {
        const request = { environment, filter, ...page };
        const { forwards, nextPageToken } = await client(WebhookService).listForwards(request);
        return { items: forwards, nextPageToken };
      },
    }),
    columns: [
      { title: "FORWARD", text: ({ id }) => id },
      { title: "WHEN", text: ({ createdAt }) => moment(createdAt) },
      { title: "TYPE", text: ({ type }) => type },
      { title: "CONNECTION", text: subjectOf },
      { title: "STATE", text: forwardStateText, tone: forwardStateTone },
      { title: "ATTEMPTS", text: ({ attemptCount }) => String(attemptCount) },
      { title: "NEXT", text: ({ nextAttemptAt }) => moment(nextAttemptAt) },
      { title: "DESTINATION", text: ({ destination }) => destination },
    ],
  });
  if (more) await output.note(`There may be more than these ${most}: --all lists them, --limit so many.`);
}

/** Formats a forward: what it is, what is sent, and the result. */
function story(forward: Forward, attempts: readonly Attempt[], paint: Paint): string {
  const { id, type, environment, notificationId, destination, createdAt, nextAttemptAt, body } = forward;
  const about = `${type} of ${subjectOf(forward)} in ${environment}`;
  const origin = notificationId === "" ? "an event of latchkey's own" : `a copy of notification ${notificationId}`;
  return [
    `${paint("bold", visible(`forward ${id}`))}  ${visible(about)}  ${paint(forwardStateTone(forward), visible(forwardStateText(forward)))}`,
    paint("dim", visible(`made ${moment(createdAt)}, ${origin}`)),
    destination === "" ? paint("warning", "there is no address to send it to") : `to ${visible(destination)}`,
    ...(nextAttemptAt === undefined ? [] : [`tried next at ${moment(nextAttemptAt)}`]),
    "",
    bodyText(body),
    "",
    attempts.length === 0 ? "not tried yet" : createTable(columns, paint).draw(attempts).trimEnd(),
  ].join("\n");
}

/** A response in time has a status; anything else is an error, possibly after a status. */
const outcomeOf = ({ status, error }: Attempt): string =>
  [...(status === 0 ? [] : [String(status)]), ...(error === "" ? [] : [error])].join(" ");

const outcomeTone = ({ status }: Attempt): Tone => (status >= 200 && status < 300 ? "good" : "bad");

const columns = [
  { title: "ATTEMPT", text: ({ number }: Attempt) => String(number) },
  { title: "WHEN", text: ({ startedAt }: Attempt) => moment(startedAt) },
  { title: "TOOK", text: ({ duration }: Attempt) => took(duration) },
  { title: "OUTCOME", text: outcomeOf, tone: outcomeTone },
  { title: "ANSWER", text: ({ answer }: Attempt) => gist(answer) },
] as const;
