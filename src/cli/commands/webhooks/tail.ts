import type { Command } from "commander";
import {
  type Forward,
  type WatchNotificationsResponse,
  WatchNotificationsResponseSchema,
  WebhookService,
} from "../../../gen/latchkey/v1/webhook_pb.ts";
import type { Act } from "../../session.ts";
import { escapeControlInLines } from "../../terminal/escape-control.ts";
import { formatTime } from "../../terminal/format.ts";
import type { Tone } from "../../terminal/paint.ts";
import { plainJson } from "../../terminal/plain-json.ts";
import { type Column, createTable } from "../../terminal/table.ts";
import { write } from "../../terminal/terminal.ts";
import { forwardStateText, forwardStateTone } from "./forward-states.ts";
import { connectionsOf, messageOf, subjectOf } from "./names.ts";

/** Adds `webhooks tail`: shows notifications and forwards as they happen, one line per step, until interrupted. */
export function addTail(group: Command, act: Act): void {
  group
    .command("tail")
    .alias("watch")
    .option("--integration <key>", "only webhooks of this integration")
    .summary("print webhooks and deliveries as they happen, until interrupted")
    .action(
      act(async ({ client, output, environment, terminal }, given: { readonly integration?: string }) => {
        const request = { environment, integration: given.integration ?? "" };
        const table = createTable(columns, output.paint, output.layout);
        await output.note("Waiting for webhooks; press Ctrl-C to stop.");
        try {
          for await (const step of client(WebhookService).watchNotifications(request)) {
            const text = output.json
              ? escapeControlInLines(JSON.stringify(plainJson(WatchNotificationsResponseSchema, step)))
              : table.draw([step.event]).trimEnd();
            await write(terminal.stdout, `${text}\n`);
          }
        } catch (error) {
          // An interrupt is the normal end.
          if (!terminal.signal.aborted) throw error;
        }
      }),
    );
}

type TailEvent = WatchNotificationsResponse["event"];

const columns: readonly Column<TailEvent>[] = [
  { title: "WHEN", text: whenOf, tone: () => "dim" },
  { title: "WHAT", text: ({ case: kind, value }) => (kind === "forward" ? wordOf(value) : "in") },
  { title: "OF", text: ofWhat },
  { title: "OUTCOME", text: outcomeOf, tone: toneOf },
  { title: "ID", text: ({ value }) => value?.id ?? "", tone: () => "dim" },
];

const wordOf = ({ type }: Forward): string => (type === "forward" ? "out" : type);

function whenOf({ case: kind, value }: TailEvent): string {
  if (kind === undefined) return "";
  return formatTime(kind === "forward" ? value.updatedAt : value.receivedAt);
}

function ofWhat({ case: kind, value }: TailEvent): string {
  if (kind === undefined) return "";
  return kind === "forward" ? subjectOf(value) : `${value.integration} ${messageOf(value)}`.trim();
}

function outcomeOf({ case: kind, value }: TailEvent): string {
  if (kind === undefined) return "";
  if (kind === "notification") return value.matches.length === 0 ? "for no connection" : `for ${connectionsOf(value)}`;
  const { attemptCount } = value;
  return attemptCount === 0 ? forwardStateText(value) : `${forwardStateText(value)}, attempt ${attemptCount}`;
}

function toneOf({ case: kind, value }: TailEvent): Tone {
  if (kind === "forward") return forwardStateTone(value);
  return kind === "notification" && value.matches.length === 0 ? "warning" : "plain";
}
