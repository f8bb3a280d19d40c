import { parseConnectionUri } from "./connection-uri.ts";

/** The location of a store, as in LATCHKEY_STORE and on the command line. */
export type StoreLocation =
  | { readonly kind: "level"; readonly folder: string }
  /** Any connection URI that libpq accepts. */
  | { readonly kind: "postgres"; readonly url: string };

export const storeLocationForms = "level:<folder> or postgres://<user>@<host>/<database>";

/** Returns undefined if the text is not a store location. */
export function parseStoreLocation(text: string): StoreLocation | undefined {
  if (text.startsWith("level:") && text.length > "level:".length) {
    return { kind: "level", folder: text.slice("level:".length) };
  }
  return parseConnectionUri(text) === undefined ? undefined : { kind: "postgres", url: text };
}

/** Parameters that identify a store: two stores in one database differ only in the schema. */
const places = ["host", "port", "dbname", "schema"];

/** Describes a location for messages, without a password. */
export function describeStoreLocation(location: StoreLocation): string {
  if (location.kind === "level") return `level:${location.folder}`;
  const uri = parseConnectionUri(location.url);
  if (uri === undefined) throw new Error("a location is parsed before it is described");
  const { url } = uri;
  url.password = "";
  for (const name of [...url.searchParams.keys()]) if (!places.includes(name)) url.searchParams.delete(name);
  return uri.text();
}
