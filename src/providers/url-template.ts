/** A part of a URL that comes from a connection, such as `${connectionConfig.subdomain}`. */
export const placeholder = /\$\{(connectionConfig|credentials)\.([A-Za-z][A-Za-z0-9_]*)\}/g;

/** A URL of a provider's description, with its placeholders. */
export interface UrlTemplate {
  /** `https://` */
  readonly scheme: string;
  /** Includes the port. */
  readonly host: string;
  readonly path: string;
  /** Query and fragment. */
  readonly rest: string;
}

/** Taken apart as it is written; undefined where it has no scheme of ours. */
export function urlTemplate(url: string): UrlTemplate | undefined {
  const [, scheme, host = "", path = "", rest = ""] = /^(https?:\/\/)([^/?#]*)([^?#]*)(.*)$/s.exec(url) ?? [];
  return scheme === undefined ? undefined : { scheme, host, path, rest };
}
