import { Fault, type Mistake } from "../../../base/fault.ts";
import {
  checkConnectionConfig,
  checkConnectionId,
  checkMetadata,
  checkTags,
  checkWebhookUrl,
  endUserTags,
  lowerTags,
  ownTags,
} from "../../../core/connection-rules.ts";
import type { Connection, ConnectionImport } from "../../../gen/latchkey/v1/connection_pb.ts";
import { type Credentials, CredentialsSchema } from "../../../gen/latchkey/v1/credentials_pb.ts";
import type { Integration } from "../../../gen/latchkey/v1/integration_pb.ts";
import type { Provider } from "../../../gen/latchkey/v1/provider_pb.ts";
import { checkCredentials } from "../../connections/credentials-rules.ts";

interface ImportRulesContext {
  readonly integration: Integration;
  readonly provider: Provider;
  /** The connection that the item is merged into. */
  readonly base: Connection | undefined;
}

/** Validates an item of an import. Returns undefined if it is valid. */
export function faultOfImport(
  item: ConnectionImport,
  { integration, provider, base }: ImportRulesContext,
): Fault | undefined {
  const { credentials, metadata, connectionConfig, webhookUrlOverride = "" } = item;
  const withDefaults = { ...integration.connectionDefaults, ...(connectionConfig ?? base?.connectionConfig) };
  const mistakes: Mistake[] = [];
  // Most items are valid: a list of all lists would cost as much as their checks.
  const add = (found: readonly Mistake[]) => {
    if (found.length > 0) mistakes.push(...found);
  };
  if (item.id !== "") add(checkConnectionId(item.id));
  add(checkKind(credentials, provider));
  if (credentials !== undefined) add(checkCredentials(credentials));
  if (metadata !== undefined) add(checkMetadata(metadata));
  add(checkConnectionConfig(withDefaults, provider.connectionFields));
  add(checkAllTags(item, base));
  add(checkWebhookUrl(webhookUrlOverride, ["webhook_url_override"]));
  return mistakes.length === 0 ? undefined : new Fault("invalid_body", "the connection is not valid", { mistakes });
}

function checkKind(credentials: Credentials | undefined, { auth }: Provider): Mistake[] {
  const given = credentials?.kind.case;
  if (given === undefined) return [{ path: ["credentials"], message: "are required" }];
  if (given === auth.case) return [];
  const message = `must be ${kindName(auth.case)}, the kind that this provider uses, not ${kindName(given)}`;
  return [{ path: ["credentials", "type"], message }];
}

/** The resulting tags: the item's own or else the existing ones, which override the tags of the end user. */
export function importedTags(
  { tags, endUser }: ConnectionImport,
  base: Connection | undefined,
): Record<string, string> {
  const own = tags === undefined ? (base === undefined ? {} : ownTags(base)) : lowerTags(tags.tags);
  const user = endUser ?? base?.endUser;
  return user === undefined ? own : { ...endUserTags(user), ...own };
}

/** Checks the item's own tags first, then all tags including those of the end user, for their number. */
function checkAllTags(item: ConnectionImport, base: Connection | undefined): Mistake[] {
  if (item.tags === undefined && item.endUser === undefined) return [];
  const mistakes = checkTags(item.tags?.tags ?? {});
  if (mistakes.length > 0) return mistakes;
  return (item.endUser ?? base?.endUser) === undefined ? [] : checkTags(importedTags(item, base));
}

/** The name of a kind of credentials in the proto. */
export const kindName = (kind: string | undefined): string => kindNames.get(kind) ?? "";

const kindNames: ReadonlyMap<string | undefined, string> = new Map(
  CredentialsSchema.oneofs[0]?.fields.map(({ localName, name }) => [localName, name]),
);
