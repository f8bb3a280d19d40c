import type { Command } from "commander";
import { BackupManifestSchema, StoreService } from "../../gen/latchkey/v1/store_pb.ts";
import type { Act, CommandSession } from "../session.ts";
import { createOutput } from "../terminal/output.ts";
import { progressOn } from "../terminal/progress.ts";
import { writeBackup } from "./file.ts";

interface BackupOptions {
  readonly quiet?: boolean;
}

/** Adds `store backup`: writes a snapshot of a running Latchkey's store to a file. */
export function addBackup(group: Command, act: Act): void {
  group
    .command("backup")
    .argument("<file>", "file to write; - writes to stdout, and the manifest to stderr")
    .option("--quiet", "show no progress")
    .summary("back up the store of a running Latchkey to a file")
    .addHelpText("after", helpText)
    .action(act(backup));
}

const helpText = `
Secrets stay sealed in it: to restore it takes the seal keys that the manifest names, which are not in it. The file
is written as FILE.partial, checked, and has its name once it is whole; one of that name is replaced then.

Examples:
  latchkey store backup latchkey-$(date +%F).backup
  latchkey store backup - | aws s3 cp - s3://backups/latchkey.backup`;

async function backup(
  { terminal, client, output }: CommandSession,
  file: string,
  { quiet = false }: BackupOptions,
): Promise<void> {
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
