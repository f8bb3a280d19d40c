import type { JsonObject } from "@bufbuild/protobuf";
import type { ConnectionField } from "../../gen/latchkey/v1/provider_pb.ts";

interface Sources {
  /** Of the connection that is authorised again. */
  readonly existing: JsonObject;
  /** What a browser sent. */
  readonly given: Readonly<Record<string, string>>;
  /** What the session says: the application's word, which no browser changes. */
  readonly session: JsonObject;
}

/** Names that mean something to sessions and are no configuration of a connection. */
export const scopesOverride = "oauth_scopes_override";

/** The `connection_config` with which an authorization begins. Of what a browser sends, only what the provider asks of end users. */
export function connectConfig(fields: readonly ConnectionField[], { existing, given, session }: Sources): JsonObject {
  const asked = askedOfUsers(fields);
  const wanted = Object.entries(given).filter(
    ([name, value]) => value !== "" && asked.some((one) => one.name === name),
  );
  const { [scopesOverride]: _, ...own } = session;
  return { ...existing, ...Object.fromEntries(wanted), ...own };
}

/** The fields that an end user fills in. */
export const askedOfUsers = (fields: readonly ConnectionField[]): readonly ConnectionField[] =>
  fields.filter(({ automatic }) => !automatic);
