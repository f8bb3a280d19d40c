import { create } from "@bufbuild/protobuf";
import { Fault } from "../base/fault.ts";
import type { Log } from "../base/log.ts";
import type { Connections } from "../broker/connections/connections.ts";
import type { Integrations } from "../broker/setup/integrations.ts";
import { ConnectionRefSchema } from "../gen/latchkey/v1/connection_pb.ts";
import type { UndeclaredAlias } from "./check-names.ts";
import type { AliasConfig } from "./doors.ts";
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
    if (await exists(integrations.get({ environment, key }))) continue;
    if (isCertain) mistakes.push(mistake);
    else log.warn(`${mistake}; requests to the alias are refused until its target exists`);
  }
  if (mistakes.length > 0) throw new ConfigMistakes(mistakes);
}

interface ConnectionCheck {
  readonly connections: Pick<Connections, "get">;
  readonly log: Pick<Log, "warn">;
}

/** Warns of aliases whose connections do not exist. This is not a mistake, because they may be created later. */
export async function warnOfMissingConnections(
  aliases: readonly AliasConfig[],
  { connections, log }: ConnectionCheck,
): Promise<void> {
  const missing: string[] = [];
  for (const { name, environment, integration, connection: id } of aliases) {
    const connection = connections.get(create(ConnectionRefSchema, { environment, integration, id }));
    if (!(await exists(connection))) missing.push(`${name}: ${environment}/${integration}/${id}`);
  }
  if (missing.length === 0) return;
  log.warn(
    "aliases name connections that do not exist; requests to these aliases get 404 until the connections exist",
    {
      aliases: missing,
    },
  );
}

async function exists(reading: Promise<unknown>): Promise<boolean> {
  try {
    await reading;
    return true;
  } catch (error) {
    if (error instanceof Fault && error.status === 404) return false;
    throw error;
  }
}
