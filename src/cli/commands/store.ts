import type { Command } from "commander";
import { GetStoreStatusResponseSchema, SealKeySchema, StoreService } from "../../gen/latchkey/v1/store_pb.ts";
import { addBackup } from "../offline/backup.ts";
import { moveCommand } from "../offline/move.ts";
import { restoreCommand } from "../offline/restore.ts";
import { addReseal, addScrub } from "../offline/upkeep.ts";
import { verifyCommand } from "../offline/verify.ts";
import { addOwnCommand } from "../process/own-command.ts";
import type { Act } from "../session.ts";
import { formatCount, formatNumber } from "../terminal/format.ts";
import type { Terminal } from "../terminal/terminal.ts";

interface StoreCommandContext {
  readonly terminal: Terminal;
  readonly keepExitCode: (code: number) => void;
}

/** Adds the `store` commands. Some call a running Latchkey, others need none. */
export function addStore(program: Command, act: Act, { terminal, keepExitCode }: StoreCommandContext): void {
  const group = program.command("store").summary("back up, restore, move and check the store");

  group
    .command("status")
    .summary("show the kind and size of the store, and whether it accepts writes")
    .action(
      act(async ({ client, output }) => {
        await output.one(GetStoreStatusResponseSchema, await client(StoreService).getStoreStatus({}));
      }),
    );
  addBackup(group, act);
  for (const own of [verifyCommand, restoreCommand, moveCommand]) addOwnCommand(group, own(terminal), keepExitCode);
  addScrub(group, act);
  addReseal(group, act);

  group
    .command("keys")
    .option("--count", "count the values that need each key; reads the whole store")
    .summary("list the encryption keys, and which can be removed from LATCHKEY_SEAL_KEYS")
    .addHelpText("after", keysHelp)
    .action(
      act(async ({ client, output }, { count = false }: { readonly count?: boolean }) => {
        const { keys } = await client(StoreService).listSealKeys({ countValues: count });
        const [first] = keys;
        await output.many({
          schema: SealKeySchema,
          none: "no encryption keys",
          pages: onePage(keys),
          columns: [
            { title: "KEY", text: ({ id }) => id },
            { title: "CONFIGURED", text: ({ configured }) => (configured ? "yes" : "no") },
            { title: "DATA KEYS", text: ({ dataKeys }) => formatNumber(dataKeys) },
            ...(count
              ? [
                  {
                    title: "VALUES",
                    text: ({ sealedValues = 0n }: (typeof keys)[number]) => formatNumber(Number(sealedValues)),
                  },
                ]
              : []),
            {
              title: "REMOVABLE",
              text: ({ id, dataKeys, needed }) => {
                if (!needed) return "yes";
                if (id === first?.id) return "no: encrypts new values";
                return `no: encrypts ${formatCount(dataKeys, "data key")}; run \`latchkey store reseal\``;
              },
              tone: ({ needed }) => (needed ? "plain" : "good"),
            },
          ],
        });
      }),
    );
}

const keysHelp = `
To change the encryption key:
  1. Put the new key first in LATCHKEY_SEAL_KEYS, and keep the old one after it.
  2. Restart every replica.
  3. Run \`latchkey store reseal\`.
  4. Remove the old key when \`latchkey store keys\` lists it as removable.
Keep a copy of the old key as long as you keep older backups:
\`latchkey store verify FILE\` shows which keys a backup needs.`;

async function* onePage<T>(page: readonly T[]): AsyncGenerator<readonly T[]> {
  yield page;
}
