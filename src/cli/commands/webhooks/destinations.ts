import { durationMs as msOf } from "@bufbuild/protobuf/wkt";
import type { Command } from "commander";
import {
  type Destination,
  DestinationSchema,
  ResumeDestinationResponseSchema,
  WebhookService,
} from "../../../gen/latchkey/v1/webhook_pb.ts";
import type { Act } from "../../session.ts";
import { formatCount, formatMs, formatNumber } from "../../terminal/format.ts";

/** Adds `webhooks destinations` and `webhooks resume`, for the application's URLs. */
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
            { title: "LAST DELIVERED", time: ({ lastDeliveredAt }) => lastDeliveredAt },
          ],
        });
      }),
    );

  group
    .command("resume")
    .argument("<url>", "the URL, as shown by `webhooks destinations`")
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

const stateOf = ({ paused, pausedReason }: Destination): string => (paused ? `paused: ${pausedReason}` : "open");

const oldestOf = ({ pending, oldest }: Destination): string =>
  pending === 0n || oldest === undefined ? "" : formatMs(msOf(oldest));
