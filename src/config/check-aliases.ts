import { Fault } from "../base/fault.ts";
import type { Log } from "../base/log.ts";
import type { Integrations } from "../broker/setup/integrations.ts";
import type { UndeclaredAlias } from "./check-names.ts";
import { ConfigMistakes } from "./mistakes.ts";

interface AliasCheck {
  readonly integrations: Pick<Integrations, "get">;
  readonly log: Pick<Log, "warn">;
}

/**
 * An alias may name an integration that was made over the API. One that neither the file nor the store has is a
 * mistake where the file declares others, and is warned of where all are made over the API: it may come later.
 */
export async function checkAliases(
  aliases: readonly UndeclaredAlias[],
  { integrations, log }: AliasCheck,
): Promise<void> {
  const mistakes: string[] = [];
  for (const { environment, integration: key, mistake, isCertain } of aliases) {
    try {
      await integrations.get({ environment, key });
    } catch (error) {
      if (!(error instanceof Fault) || error.status !== 404) throw error;
      if (isCertain) mistakes.push(mistake);
      else log.warn(`${mistake}; requests to it are refused until there is`);
    }
  }
  if (mistakes.length > 0) throw new ConfigMistakes(mistakes);
}
