import type { Command } from "commander";
import {
  type ResealResponse,
  ResealResponseSchema,
  type ScrubResponse,
  ScrubResponseSchema,
  StoreService,
} from "../../gen/latchkey/v1/store_pb.ts";
import type { Act } from "../session.ts";
import { exitCodes } from "../terminal/exit-codes.ts";
import { formatCount } from "../terminal/format.ts";
import { progressOn } from "../terminal/progress.ts";

interface UpkeepCommandOptions {
  readonly quiet?: boolean;
}

/** Adds `store scrub`: reads and checks everything once. */
export function addScrub(group: Command, act: Act): void {
  group
    .command("scrub")
    .option("--quiet", "show no progress")
    .summary("check the whole store for damage; exit code 1 if any is found")
    .action(
      act(async ({ terminal, client, output }, { quiet = false }: UpkeepCommandOptions) => {
        const progress = progressOn(terminal, { quiet });
        let last: ScrubResponse | undefined;
        try {
          for await (const step of client(StoreService).scrub({})) {
            last = step;
            progress.update({ done: 0, total: undefined, items: Number(step.checked), failed: Number(step.damaged) });
          }
        } finally {
          progress.end();
        }
        if (!last?.done) throw new Error("the answer ended before everything was read");
        const read = formatCount(Number(last.checked), "value");
        const isSound = last.damaged === 0n;
        const verdict = isSound
          ? `read ${read}; no damage found`
          : `read ${read}; damaged: ${last.damaged}, for example ${last.examples.join(", ")}`;
        await output.done(ScrubResponseSchema, last, verdict);
        return isSound ? exitCodes.ok : exitCodes.failed;
      }),
    );
}

/** Adds `store reseal`: encrypts everything again, so that only the first seal key is needed. */
export function addReseal(group: Command, act: Act): void {
  group
    .command("reseal")
    .option("--quiet", "show no progress")
    .summary("encrypt everything again with the first encryption key; run it again to continue after an interrupt")
    .action(
      act(async ({ terminal, client, output }, { quiet = false }: UpkeepCommandOptions) => {
        const progress = progressOn(terminal, { quiet });
        let last: ResealResponse | undefined;
        try {
          for await (const step of client(StoreService).reseal({})) {
            last = step;
            progress.update({ done: Number(step.done), total: Number(step.total), items: Number(step.done) });
          }
        } catch (error) {
          if (last !== undefined) progress.say(`resealed ${last.done} of ${last.total}; run it again to continue`);
          throw error;
        } finally {
          progress.end();
        }
        if (last === undefined) throw new Error("the answer says nothing");
        const sentence = `resealed ${formatCount(Number(last.done), "value")}; \`latchkey store keys\` lists the keys that are still needed`;
        await output.done(ResealResponseSchema, last, sentence);
      }),
    );
}
