/** Inserts a well-known path between the host and the path of a URL (RFC 8615; RFC 9728, section 3.1). */
function inserted(url: URL, name: string): string {
  const path = url.pathname.replace(/\/$/, "");
  return `${url.origin}/.well-known/${name}${path}${url.search}`;
}

/** Where the metadata of a protected resource may be, in order, if a challenge does not say. */
export function resourceMetadataUrls(server: URL): string[] {
  const root = `${server.origin}/.well-known/oauth-protected-resource`;
  return [...new Set([inserted(server, "oauth-protected-resource"), root])];
}

/** Where the metadata of an authorization server may be, in the order of the specification. */
export function serverMetadataUrls(issuer: URL): string[] {
  const path = issuer.pathname.replace(/\/$/, "");
  const oauth = inserted(issuer, "oauth-authorization-server");
  const openid = inserted(issuer, "openid-configuration");
  return path === "" ? [oauth, openid] : [oauth, openid, `${issuer.origin}${path}/.well-known/openid-configuration`];
}

/**
 * Whether a resource that a server names covers its URL: the same origin, and the same path or one above. RFC 9728,
 * section 3.3: metadata of another resource must not be used.
 */
export function coversServer(resource: string, server: URL): boolean {
  if (!URL.canParse(resource)) return false;
  const named = new URL(resource);
  if (named.origin !== server.origin || named.hash !== "" || named.username + named.password !== "") return false;
  if (named.search !== "" && named.search !== server.search) return false;
  const withSlash = (path: string) => (path.endsWith("/") ? path : `${path}/`);
  return withSlash(server.pathname).startsWith(withSlash(named.pathname));
}

/** The URL without a fragment, and without the slash of an empty path. */
export function canonicalResource(server: URL): string {
  const { origin, pathname, search } = server;
  return `${origin}${pathname === "/" ? "" : pathname}${search}`;
}

/** Issuers are compared as text (RFC 8414, section 3.3). A lone slash after the host is the one difference allowed. */
export const isSameIssuer = (a: string, b: string): boolean => a === b || isRootOf(a, b) || isRootOf(b, a);

const isRootOf = (withSlash: string, without: string): boolean =>
  withSlash === `${without}/` && /^https?:\/\/[^/?#]+$/.test(without);
