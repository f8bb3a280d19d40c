import type { Backend } from "../../store/contract.ts";
import type { OwnCommand } from "../process/own-command.ts";
import { exitCodes } from "../terminal/exit-codes.ts";
import { formatNumber } from "../terminal/format.ts";
import { createPhases, type Phases } from "../terminal/phases.ts";
import { type Terminal, write } from "../terminal/terminal.ts";
import { copyInto } from "./copy.ts";
import { locationOptions, type NamedStore, requireEmpty, storeNamed, withStore } from "./location.ts";

const helpText = `Stop every Latchkey that uses the store first. A folder in use is refused; with
a shared database, a commit during the move ends the move. Everything is copied,
read again and compared. Then the old store is retired: it names the new store
and can no longer be opened. Until then, the old store is not changed.

The new store needs the same encryption keys and the same control key.
Without --from, LATCHKEY_STORE names the old store.
`;

/**
 * The command `store move`: moves a store to another location, and retires the old one so that it is never served by
 * accident. Needs no key.
 */
export const moveCommand = (terminal: Terminal): OwnCommand => ({
  name: "move",
  summary: "move a store to another folder, or to or from PostgreSQL; it must not be in use",
  options: [
    ...locationOptions("from", "store to move"),
    ...locationOptions("to", "new store; must never have been used"),
    { flags: "--quiet", summary: "show no progress" },
  ],
  helpText,
  async run(_words, options) {
    const phases = createPhases(terminal, { quiet: options["quiet"] === true });
    const from = await storeNamed({ side: "from", options, terminal, fallback: "LATCHKEY_STORE" });
    const to = await storeNamed({ side: "to", options, terminal });
    await requireEmpty(to);
    const count = await withStore(from, { create: false }, (source) => move({ from, to, source, terminal, phases }));
    await write(
      terminal.stdout,
      `moved ${formatNumber(count)} entries from ${from.name} to ${to.name}; set LATCHKEY_STORE to the new location\n`,
    );
    return exitCodes.ok;
  },
});

interface StoreMove {
  readonly from: NamedStore;
  readonly to: NamedStore;
  readonly source: Backend;
  readonly terminal: Terminal;
  readonly phases: Phases;
}

/** The stage reached, and the state of both stores if the move stops there. */
const stages = {
  copying: "the old store is unchanged; if the new one is not empty, empty it before you try again",
  retiring:
    "the new store is complete. The old store may be retired already: `latchkey serve` refuses to start with a retired store",
  checking:
    "serve neither: the old store is retired, and the new store may lack the last commits. Stop every process on the old store, clear moved_to in its head, empty the new store, and move again",
} as const;

/** Moves everything, and returns the number of entries. The source is retired last, when nothing can fail any more. */
export async function move({ from, to, source, terminal, phases }: StoreMove): Promise<number> {
  let stage: keyof typeof stages = "copying";
  const snapshot = await source.snapshot();
  const { revision } = snapshot;
  try {
    const restoration = await source.restoration();
    const { count } = await withStore(to, { create: true }, async (target) => {
      const content = { revision, pages: snapshot.pages() };
      const copied = await copyInto({ content, total: undefined, to, target, terminal, phases });
      if (restoration !== undefined) await target.noteRestoration(restoration);
      return copied;
    });
    // Checked twice: now the source can still stay as it was; after the retirement, the result is certain.
    await requireUnchanged({ from, source, revision });
    stage = "retiring";
    await source.retire(to.name);
    stage = "checking";
    await requireUnchanged({ from, source, revision });
    return Number(count);
  } catch (error) {
    await write(terminal.stderr, `${stages[stage]}\n`);
    throw error;
  } finally {
    await snapshot.close();
  }
}

interface UnchangedCheck extends Pick<StoreMove, "from" | "source"> {
  readonly revision: number;
}

/** Commits after the snapshot are missing from the copy. */
async function requireUnchanged({ from, source, revision }: UnchangedCheck): Promise<void> {
  const now = await source.snapshot();
  await now.close();
  if (now.revision === revision) return;
  throw new Error(`${from.name} is in use: it was at revision ${revision} and is at ${now.revision} now`);
}
