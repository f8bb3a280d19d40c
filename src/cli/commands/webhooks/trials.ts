import { type Command, InvalidArgumentError } from "commander";
import {
  type ExplainWebhookResponse,
  ExplainWebhookResponseSchema,
  SendTestNotificationResponseSchema,
  WebhookService,
} from "../../../gen/latchkey/v1/webhook_pb.ts";
import type { Act, CommandSession } from "../../session.ts";
import { escapeControl } from "../../terminal/escape-control.ts";
import { formatCount } from "../../terminal/format.ts";
import { readInputBytes } from "../../terminal/input.ts";
import type { Paint } from "../../terminal/paint.ts";
import { connectionsOf } from "./names.ts";

type HeaderLine = readonly [name: string, value: string];

interface TrialOptions {
  readonly header?: readonly HeaderLine[];
  readonly body?: string;
}

/** Adds `webhooks explain` and `webhooks send`: predicts or tests the handling of a notification. */
export function addTrials(group: Command, act: Act): void {
  withNotification(group.command("explain"))
    .summary("explain which connections a webhook matches and why it would be refused; sends nothing")
    .action(
      act(async (session, integration: string, given: TrialOptions) => {
        const request = await requestOf(session, integration, given);
        const answer = await session.client(WebhookService).explainWebhook(request);
        if (session.output.json) return session.output.one(ExplainWebhookResponseSchema, answer);
        await session.output.line(explanation(integration, answer, session.output.paint));
      }),
    );

  withNotification(group.command("send"))
    .summary("send a test webhook, as if it came from the provider with a valid signature")
    .action(
      act(async (session, integration: string, given: TrialOptions) => {
        const request = await requestOf(session, integration, given);
        const answer = await session.client(WebhookService).sendTestNotification(request);
        const { id = "", matches = [] } = answer.notification ?? {};
        const concerned = matches.length === 0 ? "no connection" : connectionsOf({ matches });
        const sentence = `accepted the webhook ${id}; it matches ${concerned}`;
        await session.output.done(SendTestNotificationResponseSchema, answer, sentence);
        if (!session.output.json) await session.output.note(`Use \`webhooks get ${id}\` to see its deliveries.`);
      }),
    );
}

const withNotification = (command: Command): Command =>
  command
    .argument("<integration>", "key of the integration, for example calendar")
    .option("-H, --header <name: value>", "header of the webhook; repeatable", headers)
    .option("--body <file>", "file with the body; - reads stdin");

function headers(text: string, before: readonly HeaderLine[] = []): readonly HeaderLine[] {
  const [, name, value] = /^([!#$%&'*+.^_`|~0-9A-Za-z-]+):\s*(.*?)\s*$/.exec(text) ?? [];
  if (name === undefined || value === undefined) throw new InvalidArgumentError("Write it as 'name: value'.");
  return [...before, [name.toLowerCase(), value]];
}

async function requestOf(
  { environment, terminal }: CommandSession,
  integration: string,
  { header = [], body }: TrialOptions,
) {
  return {
    environment,
    integration,
    headers: header.map(([name, value]) => ({ name, value: Buffer.from(value) })),
    body: body === undefined ? new Uint8Array() : await readInputBytes(body, terminal),
  };
}

function explanation(integration: string, answer: ExplainWebhookResponse, paint: Paint): string {
  const { problem, matches, matchedRule, field } = answer;
  const found =
    matches.length === 0
      ? "no rule matches a connection: the webhook would be delivered once, without a connection"
      : `rule ${matchedRule}, ${field}, matches ${formatCount(matches.length, "connection")}:`;
  const refusal =
    problem && paint("bad", escapeControl(`the webhook would be refused: ${problem.message} (${problem.code})`));
  return [
    ...(refusal === undefined ? [] : [refusal]),
    paint(matches.length === 0 ? "warning" : "plain", escapeControl(found)),
    ...matches.map(({ id }) => `  ${escapeControl(`${integration}/${id}`)}`),
  ].join("\n");
}
