import type { Command } from "commander";
import { ReplayForwardsResponseSchema, WebhookService } from "../../../gen/latchkey/v1/webhook_pb.ts";
import type { Act, CommandSession } from "../../session.ts";
import { confirmed } from "../../terminal/confirm.ts";
import { escapeControl } from "../../terminal/escape-control.ts";
import { exitCodes } from "../../terminal/exit-codes.ts";
import { formatCount } from "../../terminal/format.ts";
import { UsageMistake } from "../../terminal/usage-mistake.ts";
import { countedDeliveries, tellForwardPreview } from "./forward-preview.ts";
import { type ForwardsFilter, forwardFilterOf, withForwardFilter } from "./forwards.ts";

const maxIds = 1_000;

interface ReplayOptions extends ForwardsFilter {
  readonly yes?: boolean;
  readonly dryRun?: boolean;
}

/** Adds `webhooks replay`: by ID at once; by filter, after confirming the number of forwards. */
export function addReplay(group: Command, act: Act): void {
  withForwardFilter(group.command("replay").argument("[forward...]", "ids of the deliveries; or use a filter instead"))
    .option("-y, --yes", "do not ask for confirmation")
    .option("--dry-run", "send nothing; print how many deliveries would be sent, and the first of them")
    .summary("send deliveries again, with the same ids")
    .addHelpText("after", help)
    .action(
      act(async (session, ids: readonly string[], { yes = false, dryRun = false, ...given }: ReplayOptions) => {
        const isByFilter = Object.keys(given).length > 0;
        if (ids.length > 0 && isByFilter) throw new UsageMistake("give either ids or a filter, not both");
        if (ids.length > 0 && dryRun) return tellPreview(session, await previewOf(session, { ids: [...ids] }));
        if (ids.length > 0) return replayEach(session, ids);
        if (given.state === undefined)
          throw new UsageMistake("give ids, or a filter with --state, for example --state dead");
        if (dryRun) return tellPreview(session, await previewOf(session, { filter: forwardFilterOf(given) }));
        return replayFound(session, given, yes);
      }),
    );
}

const help = `
Successful deliveries are sent again only if you give their id or --state
delivered. The webhook-id header stays the same, so that your application can
recognize duplicates.`;

async function replayEach(session: CommandSession, ids: readonly string[]): Promise<number> {
  const { client, environment } = session;
  let worst: number = exitCodes.ok;
  for (let at = 0; at < ids.length; at += maxIds) {
    const answer = await client(WebhookService).replayForwards({ environment, ids: ids.slice(at, at + maxIds) });
    worst = Math.max(worst, await tell(session, answer));
  }
  return worst;
}

async function replayFound(session: CommandSession, given: ForwardsFilter, isSure: boolean): Promise<number> {
  const { client, output, environment, terminal } = session;
  const filter = forwardFilterOf(given);
  if (!isSure) {
    if (!terminal.isTerminal)
      throw new UsageMistake("a replay by filter needs --yes when there is no terminal to confirm it");
    const { replayed: found, hasMore } = await previewOf(session, { filter });
    if (found === 0n) await output.note("no deliveries");
    if (found === 0n) return exitCodes.ok;
    if (!(await confirmed(terminal, `Send ${countedDeliveries(found, hasMore)} again?`))) {
      await output.note("Nothing was sent.");
      return exitCodes.failed;
    }
  }
  return tell(session, await client(WebhookService).replayForwards({ environment, filter }));
}

const previewOf = (
  { client, environment }: CommandSession,
  request: { readonly ids: string[] } | { readonly filter: ReturnType<typeof forwardFilterOf> },
) => client(WebhookService).replayForwards({ environment, ...request, validateOnly: true });

async function tellPreview(session: CommandSession, answer: ReplayPage): Promise<number> {
  const { replayed, hasMore, refused, sample } = answer;
  const sentence = `would send ${countedDeliveries(replayed, hasMore)} again`;
  await tellForwardPreview(session, { schema: ReplayForwardsResponseSchema, answer, sentence, sample, refused });
  return Object.keys(refused).length === 0 ? exitCodes.ok : exitCodes.partial;
}

type ReplayPage = Awaited<ReturnType<ReturnType<typeof clientOf>["replayForwards"]>>;
const clientOf = ({ client }: CommandSession) => client(WebhookService);

async function tell({ output }: CommandSession, answer: ReplayPage): Promise<number> {
  const refused = Object.entries(answer.refused);
  const sentence = `replayed ${formatCount(Number(answer.replayed), "delivery", "deliveries")}`;
  await output.done(ReplayForwardsResponseSchema, answer, sentence);
  if (!output.json) {
    for (const [id, { message, code }] of refused)
      await output.line(escapeControl(`not replayed: ${id}: ${message} (${code})`));
  }
  return refused.length === 0 ? exitCodes.ok : exitCodes.partial;
}
