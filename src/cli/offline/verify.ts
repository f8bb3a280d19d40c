import { BackupManifestSchema } from "../../gen/latchkey/v1/store_pb.ts";
import type { OwnCommand } from "../process/own-command.ts";
import { exitCodes } from "../terminal/exit-codes.ts";
import { createOutput } from "../terminal/output.ts";
import { createPaint } from "../terminal/paint.ts";
import { progressOn } from "../terminal/progress.ts";
import type { Terminal } from "../terminal/terminal.ts";
import { openBackup } from "./file.ts";

/**
 * The command `store verify`: checks that a backup is complete, and shows its contents. Needs no key and no running
 * Latchkey.
 */
export const verifyCommand = (terminal: Terminal): OwnCommand => ({
  name: "verify",
  summary: "check a backup and show its date, size and required keys; exit code 1 if it is incomplete",
  arguments: ["<file>"],
  options: [{ flags: "--quiet", summary: "show no progress" }],
  canJson: true,
  helpText: "FILE was written by `latchkey store backup`; - reads stdin.\n",
  async run([file = ""], { quiet, json }) {
    const progress = progressOn(terminal, { quiet: quiet === true });
    const backup = await openBackup(file, terminal);
    const manifest = await backup.verify(progress).finally(() => progress.end());
    const output = createOutput(terminal, { json: json === true, paint: createPaint(terminal) });
    await output.one(BackupManifestSchema, manifest);
    return exitCodes.ok;
  },
});
