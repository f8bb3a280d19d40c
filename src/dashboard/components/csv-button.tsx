import { useAct } from "../data/act.ts";
import type { SavedCsv } from "../data/csv-list.ts";
import { counted } from "../data/format.ts";
import { say } from "../state/messages.ts";
import { Button } from "./button.tsx";

/** Saves the rows that fit the filters as a file. */
export function CsvButton({ save }: { readonly save: () => Promise<SavedCsv> }) {
  const saving = useAct();
  const run = () =>
    saving.run(async () => {
      const { count, hasMore } = await save();
      say(
        hasMore
          ? `Saved the first ${counted(count, "row")}. Narrow the filters for the rest.`
          : `Saved ${counted(count, "row")}.`,
      );
    });
  return (
    <Button onClick={() => void run()} isBusy={saving.isBusy} title="Save what fits the filters, at most 10,000 rows">
      Export CSV
    </Button>
  );
}
