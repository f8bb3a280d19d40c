import { hash } from "node:crypto";
import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import type { Connection } from "../../gen/latchkey/v1/connection_pb.ts";
import type { Provider } from "../../gen/latchkey/v1/provider_pb.ts";
import { digestBytes } from "./resource-index.ts";

/** Says how digests are made and of what: what was filed in another form is filed anew. */
export const lookupForm = 1;

/** The fields that a provider's connections are found by, sorted, each once. */
export function lookupFields(provider: Provider): readonly string[] {
  return [...new Set((provider.notification?.lookups ?? []).map(({ field }) => field))].sort();
}

export interface LookupField {
  readonly environment: string;
  readonly integration: string;
  readonly field: string;
}

/**
 * What a connection with this value in this field of its is filed under, so cut from SHA-256 that nobody can make a
 * value that is found in another's place. Undefined: such a value is nobody's. One character a byte. Values are compared as the bytes of
 * their UTF-8: no two spellings of a URI are the same here.
 */
export const lookupDigest = (where: LookupField, value: string): string | undefined =>
  isTelling(value) ? digestIn(spaceOf(where), value) : undefined;

/**
 * The digests that a connection is filed under, one after another in their order, each once: of its values in these
 * fields, and of an array each of them. Undefined: none.
 */
export function connectionLookups(
  { ref, metadata, connectionConfig }: Pick<Connection, "ref" | "metadata" | "connectionConfig">,
  fields: readonly string[],
): Uint8Array | undefined {
  if (ref === undefined || fields.length === 0) return undefined;
  const { environment, integration } = ref;
  const digests = new Set<string>();
  for (const field of fields) {
    const [values, name] = field.startsWith(configPrefix)
      ? [connectionConfig, field.slice(configPrefix.length)]
      : [metadata, field.slice(metadataPrefix.length)];
    const space = spaceOf({ environment, integration, field });
    for (const text of textsIn(values, name)) digests.add(digestIn(space, text));
  }
  if (digests.size === 0) return undefined;
  return Buffer.from([...digests].sort().join(""), "latin1");
}

const configPrefix = "connection_config.";
const metadataPrefix = "metadata.";

// Names of environments and integrations hold no NUL, and a field says how long it is: joined parts cannot collide.
const spaceOf = ({ environment, integration, field }: LookupField): string =>
  `${environment}\0${integration}\0${field.length}\0${field}\0`;

/** One character a byte: twice as fast as a Buffer each. */
const digestIn = (space: string, value: string): string =>
  hash("sha256", space + value, "binary").slice(0, digestBytes);

function textsIn(values: JsonObject | undefined, name: string): readonly string[] {
  if (values === undefined || !Object.hasOwn(values, name)) return [];
  const value = values[name];
  return (Array.isArray(value) ? value : [value]).map(textOf).filter(isTelling);
}

/** A number that JSON rounds is not one's own: two ids of 17 digits would be the same. */
function textOf(value: JsonValue | undefined): string {
  if (typeof value === "string") return value;
  if (typeof value !== "number") return "";
  return Number.isInteger(value) && !Number.isSafeInteger(value) ? "" : String(value);
}

/** What is empty names nobody, and what is no Unicode has no UTF-8 of its own. */
const isTelling = (text: string): boolean => text !== "" && text.isWellFormed();
