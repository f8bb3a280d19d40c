import type { Command } from "commander";
import { AssignNotificationResponseSchema, WebhookService } from "../../../gen/latchkey/v1/webhook_pb.ts";
import type { Act } from "../../session.ts";
import { formatCount } from "../../terminal/format.ts";

/** Adds `webhooks assign`: says which connection an unmatched notification concerns. */
export function addAssign(group: Command, act: Act): void {
  group
    .command("assign")
    .argument("<notification>", "id of a webhook that matches no connection, from `webhooks list --unmatched`")
    .argument("<connection>", "id of a connection of the same integration")
    .summary("say which connection an unmatched webhook concerns, and deliver it with that connection")
    .action(
      act(async ({ client, output, environment }, id: string, connectionId: string) => {
        const answer = await client(WebhookService).assignNotification({ environment, id, connectionId });
        const delivered = answer.forwards.filter((forward) => forward.connectionId === connectionId).length;
        const sentence = `assigned the webhook ${id} to ${connectionId}; ${formatCount(delivered, "delivery", "deliveries")} created`;
        await output.done(AssignNotificationResponseSchema, answer, sentence);
      }),
    );
}
