import type { Command } from "commander";
import {
  type CancelForwardsResponse,
  CancelForwardsResponseSchema,
  WebhookService,
} from "../../../gen/latchkey/v1/webhook_pb.ts";
import type { Act, CommandSession } from "../../session.ts";
import { confirmed } from "../../terminal/confirm.ts";
import { escapeControl } from "../../terminal/escape-control.ts";
import { exitCodes } from "../../terminal/exit-codes.ts";
import { formatCount } from "../../terminal/format.ts";
import { UsageMistake } from "../../terminal/usage-mistake.ts";
import { countedDeliveries, tellForwardPreview } from "./forward-preview.ts";
import { type ForwardsFilter, forwardFilterOf, withForwardFilter } from "./forwards.ts";

interface CancelOptions extends ForwardsFilter {
  readonly yes?: boolean;
  readonly dryRun?: boolean;
}

/** Adds `webhooks cancel`: by ID at once; by filter, after confirming the number of forwards. */
export function addCancel(group: Command, act: Act): void {
  withForwardFilter(group.command("cancel").argument("[forward...]", "ids of the deliveries; or use a filter instead"))
    .option("-y, --yes", "do not ask for confirmation")
    .option("--dry-run", "cancel nothing; print how many deliveries would be cancelled, and the first of them")
    .summary("give up deliveries that wait; they can be replayed later")
    .action(
      act(async (session, ids: readonly string[], { yes = false, dryRun = false, ...given }: CancelOptions) => {
        const isByFilter = Object.keys(given).length > 0;
        if (ids.length > 0 === isByFilter) throw new UsageMistake("give either ids or a filter, such as --destination");
        const selection = ids.length > 0 ? { ids: [...ids] } : { filter: forwardFilterOf(given) };
        const { client, environment } = session;
        if (dryRun || (isByFilter && !yes)) {
          const answer = await client(WebhookService).cancelForwards({ environment, ...selection, validateOnly: true });
          if (dryRun) return tellPreview(session, answer);
          if (!(await isConfirmed(session, answer))) return exitCodes.failed;
        }
        return tell(session, await client(WebhookService).cancelForwards({ environment, ...selection }));
      }),
    );
}

async function isConfirmed({ output, terminal }: CommandSession, answer: CancelForwardsResponse): Promise<boolean> {
  if (!terminal.isTerminal)
    throw new UsageMistake("a cancellation by filter needs --yes when there is no terminal to confirm it");
  if (await confirmed(terminal, `Cancel ${countedDeliveries(answer.cancelled, answer.hasMore)}?`)) return true;
  await output.note("Nothing was cancelled.");
  return false;
}

async function tellPreview(session: CommandSession, answer: CancelForwardsResponse): Promise<number> {
  const { cancelled, hasMore, refused, sample } = answer;
  const sentence = `would cancel ${countedDeliveries(cancelled, hasMore)}`;
  await tellForwardPreview(session, { schema: CancelForwardsResponseSchema, answer, sentence, sample, refused });
  return Object.keys(refused).length === 0 ? exitCodes.ok : exitCodes.partial;
}

async function tell({ output }: CommandSession, answer: CancelForwardsResponse): Promise<number> {
  const refused = Object.entries(answer.refused);
  const sentence = `cancelled ${formatCount(Number(answer.cancelled), "delivery", "deliveries")}`;
  await output.done(CancelForwardsResponseSchema, answer, sentence);
  if (!output.json) {
    for (const [id, { message, code }] of refused)
      await output.line(escapeControl(`not cancelled: ${id}: ${message} (${code})`));
  }
  return refused.length === 0 ? exitCodes.ok : exitCodes.partial;
}
