import type { JsonObject } from "@bufbuild/protobuf";
import type { ConnectionField } from "../../gen/latchkey/v1/provider_pb.ts";

interface Sources {
  /** Config of the existing connection that is authorized again. */
  readonly existing: JsonObject;
  /** Values that the browser sent. */
  readonly given: Readonly<Record<string, string>>;
  /** Values that the application set in the session; no browser can change them. */
  readonly session: JsonObject;
}

/** A session parameter name that is not part of a connection's configuration. */
export const scopesOverride = "oauth_scopes_override";

/**
 * Returns the `connection_config` that an authorization starts with. Browser values are limited to fields that the
 * provider asks of end users.
 */
export function connectConfig(fields: readonly ConnectionField[], { existing, given, session }: Sources): JsonObject {
  const asked = userFields(fields);
  const wanted = Object.entries(given).filter(
    ([name, value]) => value !== "" && asked.some((one) => one.name === name),
  );
  const { [scopesOverride]: _, ...own } = session;
  return { ...existing, ...Object.fromEntries(wanted), ...own };
}

/** Fields that the end user fills in. */
export const userFields = (fields: readonly ConnectionField[]): readonly ConnectionField[] =>
  fields.filter(({ automatic }) => !automatic);
