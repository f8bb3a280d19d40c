/** A connection URI of libpq, which may name several hosts with their ports, unlike a URL. */
export interface ConnectionUri {
  /** Names a placeholder as its host when there are several. */
  readonly url: URL;
  /** With their ports, as written; one element may be empty. */
  readonly hosts: readonly string[];
  /** The URI of a changed `url`. */
  text(): string;
}

/** Before the hosts: the scheme, user and password. */
const authority = /^(postgres(?:ql)?:\/\/(?:[^/?#]*@)?)([^/?#@]*)/;
const placeholder = "several";

/** Returns undefined for anything else. */
export function parseConnectionUri(text: string): ConnectionUri | undefined {
  const [, before, written] = authority.exec(text) ?? [];
  if (before === undefined || written === undefined) return undefined;
  const isSeveral = written.includes(",");
  const plain = isSeveral ? `${before}${placeholder}${text.slice(before.length + written.length)}` : text;
  if (!URL.canParse(plain)) return undefined;
  const url = new URL(plain);
  return {
    url,
    hosts: written.split(","),
    text() {
      const [, start = "", rest = ""] = isSeveral ? (/^([^/]*\/\/(?:[^/?#]*@)?)several(.*)$/.exec(url.href) ?? []) : [];
      return isSeveral ? `${start}${written}${rest}` : url.href;
    },
  };
}
