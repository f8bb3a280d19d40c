import { existsSync } from "node:fs";
import type { Command } from "commander";
import { BackupManifestSchema, StoreService } from "../../gen/latchkey/v1/store_pb.ts";
import type { Act, CommandSession } from "../session.ts";
import { requireYes, withYes, type YesOption } from "../terminal/confirm.ts";
import { createOutput } from "../terminal/output.ts";
import { progressOn } from "../terminal/progress.ts";
import { writeBackup } from "./file.ts";

interface BackupOptions extends YesOption {
  readonly quiet?: boolean;
}

/** Adds `store backup`: writes a snapshot of a running Latchkey's store to a file. */
export function addBackup(group: Command, act: Act): void {
  withYes(
    group
      .command("backup")
      .argument("<file>", "file to write; - writes to stdout, and the manifest to stderr")
      .option("--quiet", "show no progress"),
  )
    .summary("back up the store of a running Latchkey to a file")
    .addHelpText("after", helpText)
    .action(act(backup));
}

const helpText = `
Secrets stay encrypted in the backup. To restore it, you need the encryption
keys that \`latchkey store verify FILE\` lists; they are not in the backup. The
file is written as FILE.partial and renamed when it is complete and checked. An
existing FILE is replaced; on a terminal, Latchkey asks first.`;

async function backup(session: CommandSession, file: string, { quiet = false, yes }: BackupOptions): Promise<void> {
  const { terminal, client, output } = session;
  if (file !== "-" && existsSync(file)) await requireYes(session.terminal, `${file} exists. Replace it?`, yes);
  const progress = progressOn(terminal, { quiet });
  try {
    const manifest = await writeBackup(file, chunksOf(client), { terminal, progress });
    progress.end();
    const beside = { ...terminal, stdout: terminal.stderr };
    const answer = file === "-" ? createOutput(beside, output) : output;
    await answer.one(BackupManifestSchema, manifest);
  } finally {
    progress.end();
  }
}

/** Requested with the first chunk: an interrupt before that leaves no rejected promise unhandled. */
async function* chunksOf(client: CommandSession["client"]): AsyncGenerator<Uint8Array> {
  for await (const { piece } of client(StoreService).backup({})) if (piece.case === "chunk") yield piece.value;
}
