import { InvalidArgumentError } from "commander";
import type { ConnectionRef } from "../../../gen/latchkey/v1/connection_pb.ts";
import type { CommandSession } from "../../session.ts";

/** A connection as a person names it: `calendar/ada`. */
export interface ConnectionName {
  readonly integration: string;
  readonly id: string;
}

/** Splits at the first slash: an integration's key has none, a connection's ID may have some. */
export function connectionName(text: string): ConnectionName {
  const at = text.indexOf("/");
  if (at < 1 || at === text.length - 1)
    throw new InvalidArgumentError("Write it as integration/connection, for example calendar/ada.");
  return { integration: text.slice(0, at), id: text.slice(at + 1) };
}

/** Parses an integration, or one of its connections: `calendar`, `calendar/ada`. An empty ID means all connections. */
export const placeName = (text: string): ConnectionName =>
  text.includes("/") ? connectionName(text) : { integration: text, id: "" };

export const connectionNames = (text: string, before: readonly ConnectionName[] = []): readonly ConnectionName[] => [
  ...before,
  connectionName(text),
];

export const refOf = ({ environment }: Pick<CommandSession, "environment">, { integration, id }: ConnectionName) => ({
  environment,
  integration,
  id,
});

export const nameOf = (ref: Pick<ConnectionRef, "integration" | "id"> | undefined): string =>
  ref === undefined ? "" : `${ref.integration}/${ref.id}`;
