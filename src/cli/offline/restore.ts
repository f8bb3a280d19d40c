import { timestampMs } from "@bufbuild/protobuf/wkt";
import type { OwnCommand } from "../process/own-command.ts";
import { exitCodes } from "../terminal/exit-codes.ts";
import { formatNumber } from "../terminal/format.ts";
import { createPhases } from "../terminal/phases.ts";
import { type Terminal, write } from "../terminal/terminal.ts";
import { UsageMistake } from "../terminal/usage-mistake.ts";
import { copyInto, isSame } from "./copy.ts";
import { openBackup } from "./file.ts";
import { locationOptions, requireEmpty, storeNamed, withStore } from "./location.ts";

const helpText = `The whole backup is checked before anything is written. What was written is
read again and compared. The new store must never have been used.
Without --to, LATCHKEY_STORE names it.
`;

/** The command `store restore`: creates a store from a backup. Needs no key and no running Latchkey. */
export const restoreCommand = (terminal: Terminal): OwnCommand => ({
  name: "restore",
  summary: "create a new store from a backup",
  arguments: ["<file>"],
  options: [
    ...locationOptions("to", "store to create; must never have been used"),
    { flags: "--quiet", summary: "show no progress" },
  ],
  helpText,
  async run([file = ""], options) {
    const phases = createPhases(terminal, { quiet: options["quiet"] === true });
    if (file === "-") throw new UsageMistake("a backup to restore must be a file: it is read twice");
    const to = await storeNamed({ side: "to", options, terminal, fallback: "LATCHKEY_STORE" });
    await requireEmpty(to);
    const backup = await openBackup(file, terminal);
    const manifest = await phases(`reading all of ${file}`, (progress) => backup.verify(progress));
    const { revision, count, keyIds, createdAt } = manifest;
    const content = { revision: Number(revision), pages: backup.pages() };
    await withStore(to, { create: true }, async (target) => {
      const copied = await copyInto({ content, total: Number(count), to, target, terminal, phases });
      if (!isSame(copied, manifest)) throw new Error(`${file} was changed while it was read; empty ${to.name}`);
      // Refresh tokens that were refreshed after the backup are outdated in the store.
      await target.noteRestoration({
        backupRevision: Number(revision),
        backupAtMs: createdAt === undefined ? 0 : timestampMs(createdAt),
        restoredAtMs: Date.now(),
      });
    });
    const keys = keyIds.map((id) => `"${id}"`).join(", ");
    await write(
      terminal.stdout,
      `restored ${formatNumber(Number(count))} entries at revision ${revision} to ${to.name}; required encryption keys: ${keys}\n`,
    );
    return exitCodes.ok;
  },
});
