import { stat } from "node:fs/promises";
import { join } from "node:path";
import { createLog } from "../../../base/log.ts";
import type { ScriptMistake } from "../../../core/scripts/script.ts";
import { isOwnPath } from "../../../data-plane/server/own-paths.ts";
import type { OwnCommand } from "../../process/own-command.ts";
import { escapeControl } from "../../terminal/escape-control.ts";
import { exitCodes } from "../../terminal/exit-codes.ts";
import { formatCount } from "../../terminal/format.ts";
import { createOutput } from "../../terminal/output.ts";
import { createPaint } from "../../terminal/paint.ts";
import type { Terminal } from "../../terminal/terminal.ts";
import { write } from "../../terminal/terminal.ts";
import { UsageMistake } from "../../terminal/usage-mistake.ts";

/** Same default as `dev`. */
const usualFolder = "./scripts";

/** The command `scripts check`: reads a folder of scripts as `serve` would. Needs no running Latchkey. */
export const checkCommand = (terminal: Terminal): OwnCommand => ({
  name: "check",
  summary: "check a folder of scripts as `serve` does; exit code 1 if there is a mistake",
  arguments: ["[folder]"],
  canJson: true,
  helpText:
    "FOLDER defaults to LATCHKEY_SCRIPTS, or else ./scripts. With --json, each mistake is an object on its own line.\n",
  async run([given], { json }) {
    const folder = given ?? (terminal.env.LATCHKEY_SCRIPTS || usualFolder);
    await requireFolder(folder);
    const { good, broken, mistakes } = await read(folder, terminal);
    const output = createOutput(terminal, { json: json === true, paint: createPaint(terminal) });
    for (const mistake of mistakes) {
      if (json === true) await output.document(mistake);
      else
        await output.line(`${output.paint("bad", escapeControl(placeOf(mistake)))}: ${escapeControl(mistake.message)}`);
    }
    const all = formatCount(good + broken, "script");
    if (broken > 0) await output.note(`${broken} of ${all} ${broken === 1 ? "is" : "are"} broken`);
    else if (good > 0) await output.note(`${all}, no mistakes`);
    else await output.note(`no scripts in ${folder}; expected <integration>/{syncs,actions,events}/<name>.ts`);
    return broken === 0 ? exitCodes.ok : exitCodes.failed;
  },
});

async function requireFolder(folder: string): Promise<void> {
  const found = await stat(folder).catch(() => undefined);
  if (found?.isDirectory() === true) return;
  const hint = folder === usualFolder ? ": say which one to read, or set LATCHKEY_SCRIPTS" : "";
  throw new UsageMistake(`there is no folder ${folder}${hint}`);
}

async function read(folder: string, { stderr }: Terminal) {
  // Mistakes in scripts are printed below; this log is for errors while reading.
  const log = createLog({ level: "error", format: "pretty", write: (line) => void write(stderr, line) });
  // Loaded on demand, because it loads a compiler.
  const { createScriptHost } = await import("../../../scripts/host.ts");
  const host = await createScriptHost({ folder, world: { log, now: Date.now }, isOwnPath });
  try {
    const broken = host.broken();
    const mistakes = broken.flatMap((one) =>
      one.mistakes.map((mistake) => ({ ...mistake, file: join(folder, mistake.file) })),
    );
    return { good: host.all().length, broken: broken.length, mistakes };
  } finally {
    await host.close();
  }
}

const placeOf = ({ file, line, column }: ScriptMistake): string =>
  [file, line, column].filter((part) => part !== undefined).join(":");
