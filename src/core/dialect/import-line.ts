import { create, type MessageInitShape } from "@bufbuild/protobuf";
import type { Mistake } from "../../base/fault.ts";
import {
  type ConnectionImport,
  ConnectionImportSchema,
  type EndUserSchema,
} from "../../gen/latchkey/v1/connection_pb.ts";
import { CredentialsSchema } from "../../gen/latchkey/v1/credentials_pb.ts";
import { readCredentials } from "./import-credentials.ts";
import { isObject, type JsonFields, type ReadingNotes, readFields } from "./json-fields.ts";

/** A connection as it was read, and what of it nobody asked for. */
export interface ImportLine {
  readonly connection: ConnectionImport;
  /** Dotted paths of fields that are not known, such as `credentials.scope`. */
  readonly ignored: readonly string[];
}

/** Says everything that is wrong with a connection which was to be imported, and quotes none of its values. */
export class ImportMistake extends Error {
  override readonly name = "ImportMistake";
  readonly mistakes: readonly Mistake[];

  constructor(mistakes: readonly Mistake[]) {
    super(sentence(mistakes));
    this.mistakes = mistakes;
  }
}

/**
 * Reads a connection in the dialect of `POST /connections`, as the SDKs write it and as a file of connections holds
 * it, one a line. Only its form is judged; what an id or a tag may look like is for `connection-rules`, which every
 * import passes. Throws ImportMistake.
 */
export function readImportJson(value: unknown): ImportLine {
  if (!isObject(value)) throw new ImportMistake([{ path: [], message: "must be a JSON object" }]);
  const findings: ReadingNotes = { mistakes: [], ignored: [] };
  const connection = readConnection(readFields(value, { path: [], findings }));
  if (findings.mistakes.length > 0) throw new ImportMistake(findings.mistakes);
  return { connection: create(ConnectionImportSchema, connection), ignored: findings.ignored };
}

function readConnection(fields: JsonFields): MessageInitShape<typeof ConnectionImportSchema> {
  const names = {
    environment: fields.text("environment") ?? "",
    integration: fields.requiredText("provider_config_key"),
    id: fields.text("connection_id") ?? "",
  };
  const webhookUrlOverride = fields.text("webhook_url_override");
  const metadata = fields.json("metadata");
  const connectionConfig = fields.json("connection_config");
  const tags = fields.textMap("tags");
  const endUser = readEndUserJson(fields.object("end_user"));
  const kind = readKind(fields);
  fields.ignoreRest();
  // What is not named is left out, not emptied: a re-import keeps it.
  return {
    ...names,
    ...(webhookUrlOverride === undefined ? {} : { webhookUrlOverride }),
    ...(metadata === undefined ? {} : { metadata }),
    ...(connectionConfig === undefined ? {} : { connectionConfig }),
    ...(tags === undefined ? {} : { tags: { tags } }),
    ...(endUser === undefined ? {} : { endUser }),
    ...(kind === undefined ? {} : { credentials: create(CredentialsSchema, { kind }) }),
  };
}

function readKind(fields: JsonFields) {
  const missing = !fields.has("credentials");
  if (missing) fields.refuse("credentials", "is required");
  const credentials = fields.object("credentials");
  return credentials === undefined ? undefined : readCredentials(credentials);
}

/** An `end_user` of the same dialect. */
export function readEndUserJson(fields: JsonFields | undefined): MessageInitShape<typeof EndUserSchema> | undefined {
  if (fields === undefined) return undefined;
  const endUser = {
    id: fields.requiredText("id"),
    email: fields.text("email") ?? "",
    displayName: fields.text("display_name") ?? "",
    tags: fields.textMap("tags") ?? {},
  };
  const organization = fields.object("organization");
  fields.ignoreRest();
  if (organization === undefined) return endUser;
  const id = organization.requiredText("id");
  const displayName = organization.text("display_name") ?? "";
  organization.ignoreRest();
  return { ...endUser, organization: { id, displayName } };
}

function sentence(mistakes: readonly Mistake[]): string {
  const shown = mistakes.slice(0, 3).map(({ path, message }) => `${path.join(".") || "a connection"} ${message}`);
  const more = mistakes.length - shown.length;
  return shown.join("; ") + (more > 0 ? `; and ${more} more` : "");
}
