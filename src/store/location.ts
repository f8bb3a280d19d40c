/** Where a store lies, as LATCHKEY_STORE and the command line write it. */
export type StoreLocation =
  | { readonly kind: "level"; readonly folder: string }
  /** Anything that libpq would understand of a connection URI. */
  | { readonly kind: "postgres"; readonly url: string };

export const storeLocationForms = "level:<folder> or postgres://<user>@<host>/<database>";

/** Undefined when it is none. */
export function parseStoreLocation(text: string): StoreLocation | undefined {
  if (text.startsWith("level:") && text.length > "level:".length) {
    return { kind: "level", folder: text.slice("level:".length) };
  }
  if (/^postgres(ql)?:\/\//.test(text) && URL.canParse(text)) return { kind: "postgres", url: text };
  return undefined;
}

/** Parameters that say where a store lies: of two in one database the schema alone tells which. */
const places = ["host", "port", "dbname", "schema"];

/** For messages: without a password. */
export function describeStoreLocation(location: StoreLocation): string {
  if (location.kind === "level") return `level:${location.folder}`;
  const url = new URL(location.url);
  url.password = "";
  for (const name of [...url.searchParams.keys()]) if (!places.includes(name)) url.searchParams.delete(name);
  return url.href;
}
