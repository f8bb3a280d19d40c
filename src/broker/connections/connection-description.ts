import { hash } from "node:crypto";
import { create, type JsonObject, type JsonValue } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { neededChoices } from "../../core/needed-choices.ts";
import { type ConnectionDescription, ConnectionDescriptionSchema } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import type { Connection, ConnectionRef } from "../../gen/latchkey/v1/connection_pb.ts";
import type { DescribeRule, Provider } from "../../gen/latchkey/v1/provider_pb.ts";
import type { DescribedValues } from "./described-values.ts";

/** Rules for what a provider is asked about an imported connection, and for which of its answers are stored. */

type DescriptionValues = Pick<Connection, "metadata" | "connectionConfig">;

const secondMs = 1_000;
const minuteMs = 60 * secondMs;
const hourMs = 60 * minuteMs;
/** Waits between two attempts: short first, for a provider that is restarted; about a day in all. */
const retryDelaysMs = [5 * secondMs, 30 * secondMs, 2 * minuteMs, 10 * minuteMs, hourMs, 6 * hourMs, 18 * hourMs];
/** A provider that refuses the credentials seldom changes its mind: the last attempt is after 73 minutes. */
const refusalRetries = 5;

/** How long to wait after so many failed attempts; undefined: no further attempt. */
export function retryDelayMs(attempts: number, isRefused: boolean): number | undefined {
  return isRefused && attempts > refusalRetries ? undefined : retryDelaysMs[attempts - 1];
}

/**
 * The rules whose fields are still wanted: fields without a value, and fields whose value came from the provider for
 * earlier credentials.
 */
export function wantedRules(
  provider: Provider,
  connection: DescriptionValues,
  found: Readonly<Record<string, string>>,
): readonly DescribeRule[] {
  return provider.describe.filter(({ field, request }) => {
    const value = storedValue(connection, field);
    return request !== undefined && (isMissing(value) || found[field] === digestOf(value));
  });
}

interface ImportedConnection {
  readonly ref: ConnectionRef;
  readonly provider: Provider;
  /** The connection as it will be stored. */
  readonly connection: DescriptionValues;
  /** The values that this import names. */
  readonly given: Partial<DescriptionValues>;
  readonly before: ConnectionDescription | undefined;
  readonly nowMs: number;
}

/** The questions about a connection that was just imported; undefined: none. */
export function descriptionOfImport(imported: ImportedConnection): ConnectionDescription | undefined {
  const { ref, provider, connection, given, before, nowMs } = imported;
  if (provider.describe.length + provider.choices.length === 0) return undefined;
  // A value that an importer names is the importer's from then on.
  const found = Object.fromEntries(
    Object.entries(before?.found ?? {}).filter(
      ([field, digest]) =>
        storedValue(given, field) === undefined && digestOf(storedValue(connection, field)) === digest,
    ),
  );
  const isWanted =
    wantedRules(provider, connection, found).length > 0 ||
    neededChoices(provider, connection.connectionConfig).length > 0;
  if (!isWanted) return undefined;
  return create(ConnectionDescriptionSchema, {
    environment: ref.environment,
    integration: ref.integration,
    connectionId: ref.id,
    provider: provider.name,
    dueAt: timestampFromMs(nowMs),
    found,
  });
}

/** The fields of `answer` that are stored over a connection: those that it lacks, or that hold an earlier answer. */
export function acceptedValues(
  connection: DescriptionValues,
  found: Readonly<Record<string, string>>,
  { metadata, connectionConfig }: DescribedValues,
): { readonly values: DescribedValues; readonly found: Record<string, string> } {
  const accepted: DescribedValues = { metadata: {}, connectionConfig: {} };
  const digests: Record<string, string> = { ...found };
  const offer = (field: string, value: JsonValue, into: JsonObject, name: string) => {
    const stored = storedValue(connection, field);
    if (!isMissing(stored) && found[field] !== digestOf(stored)) return;
    into[name] = value;
    digests[field] = digestOf(value);
  };
  for (const [name, value] of Object.entries(metadata)) offer(`metadata.${name}`, value, accepted.metadata, name);
  for (const [name, value] of Object.entries(connectionConfig))
    offer(`connection_config.${name}`, value, accepted.connectionConfig, name);
  return { values: accepted, found: digests };
}

function storedValue({ metadata, connectionConfig }: Partial<DescriptionValues>, field: string): JsonValue | undefined {
  const [, place, name = ""] = /^(metadata|connection_config)\.(.+)$/s.exec(field) ?? [];
  const values = place === "metadata" ? metadata : connectionConfig;
  return values !== undefined && Object.hasOwn(values, name) ? values[name] : undefined;
}

const isMissing = (value: JsonValue | undefined): boolean => value === undefined || value === null || value === "";

const digestOf = (value: JsonValue | undefined): string => hash("sha256", JSON.stringify(value ?? null));
