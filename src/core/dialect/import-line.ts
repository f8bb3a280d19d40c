import { create, type MessageInitShape } from "@bufbuild/protobuf";
import type { Mistake } from "../../base/fault.ts";
import {
  type ConnectionImport,
  ConnectionImportSchema,
  type EndUserSchema,
} from "../../gen/latchkey/v1/connection_pb.ts";
import { CredentialsSchema } from "../../gen/latchkey/v1/credentials_pb.ts";
import { readCredentials } from "./credentials.ts";
import { isObject, type JsonFields, type ReadFindings, readFields } from "./json-fields.ts";

/** A parsed line, and its unknown fields. */
export interface ImportLine {
  readonly connection: ConnectionImport;
  /** Dotted paths of unknown fields, such as `credentials.scope`. */
  readonly ignored: readonly string[];
}

/** Lists everything that is wrong with a connection to import, without quoting any of its values. */
export class ImportMistake extends Error {
  override readonly name = "ImportMistake";
  readonly mistakes: readonly Mistake[];

  constructor(mistakes: readonly Mistake[]) {
    super(sentence(mistakes));
    this.mistakes = mistakes;
  }
}

/**
 * Reads a connection in the dialect of `POST /connections`, as SDKs write it and as an import file holds it, one
 * connection per line. Checks only the form; `connection-rules`, which every import passes, checks IDs and tags. Throws
 * ImportMistake. Adds fields with the name of a known one, slightly misspelled, to `misspelled`.
 */
export function readImportJson(value: unknown, misspelled?: Mistake[]): ImportLine {
  if (!isObject(value)) throw new ImportMistake([{ path: [], message: "must be a JSON object" }]);
  const findings: ReadFindings = { mistakes: [], ignored: [], ...(misspelled && { misspelled }) };
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
  // Omits absent fields instead of clearing them, so that a re-import keeps the stored values.
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

/** Reads an `end_user` of the same dialect. */
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
