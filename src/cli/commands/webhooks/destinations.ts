import { durationMs as msOf } from "@bufbuild/protobuf/wkt";
import type { Command } from "commander";
import {
  type Destination,
  DestinationSchema,
  PauseDestinationResponseSchema,
  ResumeDestinationResponseSchema,
  TestDestinationResponseSchema,
  WebhookService,
} from "../../../gen/latchkey/v1/webhook_pb.ts";
import type { Act } from "../../session.ts";
import { exitCodes } from "../../terminal/exit-codes.ts";
import { formatCount, formatDuration, formatMs, formatNumber } from "../../terminal/format.ts";

/** Adds `webhooks destinations`, `pause`, `resume` and `test`, for the application's URLs. */
export function addDestinations(group: Command, act: Act): void {
  group
    .command("destinations")
    .summary("list the URLs that deliveries go to, and how many are pending")
    .action(
      act(async ({ client, output, environment }) => {
        async function* pages() {
          yield (await client(WebhookService).listDestinations({ environment })).destinations;
        }
        await output.many({
          schema: DestinationSchema,
          none: "no destinations: the environment has no forward URL and no pending deliveries",
          pages: pages(),
          columns: [
            { title: "DESTINATION", text: ({ url }) => url },
            { title: "STATE", text: stateOf, tone: ({ paused }) => (paused ? "bad" : "good") },
            { title: "WAITING", text: ({ pending }) => formatNumber(Number(pending)) },
            { title: "OLDEST", text: oldestOf },
            { title: "FAILURES", text: failuresOf, tone: ({ failures }) => (failures === 0 ? "plain" : "bad") },
            { title: "LAST DELIVERED", time: ({ lastDeliveredAt }) => lastDeliveredAt },
          ],
        });
      }),
    );

  addPause(group, act);
  addTest(group, act);
  group
    .command("resume")
    .argument(...urlArgument)
    .summary("resume deliveries to a paused URL")
    .action(
      act(async ({ client, output, environment }, url: string) => {
        const answer = await client(WebhookService).resumeDestination({ environment, url });
        const waiting = Number(answer.destination?.pending ?? 0n);
        const sentence = `resumed ${url}; ${formatCount(waiting, "delivery", "deliveries")} pending`;
        await output.done(ResumeDestinationResponseSchema, answer, sentence);
      }),
    );
}

function addPause(group: Command, act: Act): void {
  group
    .command("pause")
    .argument(...urlArgument)
    .option("--reason <text>", "why, for other people to read")
    .summary("pause deliveries to a URL; they wait until you resume it")
    .action(
      act(async ({ client, output, environment }, url: string, { reason = "" }: { readonly reason?: string }) => {
        const answer = await client(WebhookService).pauseDestination({ environment, url, reason });
        await output.done(PauseDestinationResponseSchema, answer, `paused ${url}; deliveries wait until it is resumed`);
      }),
    );
}

function addTest(group: Command, act: Act): void {
  group
    .command("test")
    .argument(...urlArgument)
    .summary("send a signed test message to a URL now, also while it is paused")
    .action(
      act(async ({ client, output, environment }, url: string) => {
        const answer = await client(WebhookService).testDestination({ environment, url });
        const { attempt, accepted, explanation, id, headerNames } = answer;
        const took = formatDuration(attempt?.duration);
        const status = attempt?.status === 0 || attempt === undefined ? attempt?.error : String(attempt.status);
        await output.done(TestDestinationResponseSchema, answer, `${status} after ${took}: ${explanation}`);
        if (!output.json) await output.note(`Sent ${id} with ${headerNames.join(", ")}.`);
        return accepted ? exitCodes.ok : exitCodes.failed;
      }),
    );
}

const urlArgument = ["<url>", "the URL, as shown by `webhooks destinations`"] as const;

const failuresOf = ({ failures, lastFailure }: Destination): string =>
  failures === 0 ? "" : `${failures}: ${lastFailure}`;

const stateOf = ({ paused, pausedReason, pausedNote }: Destination): string =>
  paused ? `paused: ${pausedNote || pausedReason}` : "open";

const oldestOf = ({ pending, oldest }: Destination): string =>
  pending === 0n || oldest === undefined ? "" : formatMs(msOf(oldest));
