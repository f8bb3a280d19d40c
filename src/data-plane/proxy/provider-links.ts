import type { Socket } from "node:net";
import { lowerCase } from "../../base/http/field-name.ts";
import type { LinkRewriter } from "../../core/outgoing/incoming-fields.ts";
import { withLinkTargets, withRefreshTarget } from "../../core/outgoing/link-field.ts";
import { mistakeInPath } from "../../core/outgoing/provider-path.ts";
import type { FrontHead } from "../../relay/client/incoming.ts";
import { type CallContext, type ProviderCall, proxyPrefix } from "./provider-call.ts";

/**
 * Limits the characters that rewritten references may add to a response. Short relative references each become whole
 * paths.
 */
const maxGrowth = 64 * 1024;
/** Replaces references beyond the limit. Unchanged, they would lead to a route of this listener. */
const nowhere = "about:blank";

type ReferencedCall = Pick<ProviderCall, "address" | "proxied" | "options" | "binding">;

/**
 * Rewrites a provider's references to its own address, so that they lead back to this listener: a client that follows
 * one to the provider would send its Latchkey key there. References to other hosts stay unchanged: clients follow them
 * without credentials.
 *
 * Relative references are relative to the provider's address. Unchanged, one would lead the caller, with its key, to a
 * route of this listener that the provider chooses.
 */
export class ProviderLinks implements LinkRewriter {
  readonly #call: ReferencedCall;
  readonly #request: FrontHead;
  readonly #prefix: string;
  readonly #isInTunnel: boolean;
  #growth = 0;

  constructor(call: ReferencedCall, { request, alias, forward }: CallContext) {
    this.#call = call;
    this.#request = request;
    this.#prefix = alias === undefined ? proxyPrefix : "";
    this.#isInTunnel = forward?.isTunnel === true;
  }

  /** Rewrites `Location`: a path on this listener, or a whole URL. */
  reference(reference: string): string {
    return this.#back(reference, "");
  }

  /** Rewrites `Link` to whole URLs, since clients put their own base URL, with the prefix, before a path. */
  links(value: string): string {
    const door = listenerUrl(this.#request);
    return withLinkTargets(value, (target) => this.#back(target, door));
  }

  refresh(value: string): string {
    return withRefreshTarget(value, (target) => this.#back(target, ""));
  }

  #back(reference: string, door: string): string {
    // The caller believes to be at the provider: any other host takes another tunnel, which is decided on its own.
    if (this.#isInTunnel) return reference;
    if (this.#growth > maxGrowth) return nowhere;
    const made = this.#rewritten(reference, door);
    this.#growth += made.length - reference.length;
    return made;
  }

  #rewritten(reference: string, door: string): string {
    return this.#ordinary(reference, door) ?? this.#unusual(reference, door);
  }

  /**
   * Rewrites what nearly all providers send, without parsing a URL (a tenth of the time): the address of the request
   * with a plain path, or a plain path alone. Returns undefined for anything else.
   */
  #ordinary(reference: string, door: string): string | undefined {
    const { address, options, binding } = this.#call;
    const { origin, basePath } = address;
    const rest = reference.startsWith(origin) ? reference.slice(origin.length) : reference;
    if (!plainPath.test(rest) || !rest.startsWith(basePath) || !this.#request.url?.startsWith("/")) return undefined;
    const path = rest.slice(basePath.length);
    if (!path.startsWith("/")) return undefined;
    const next = options.baseUrl === undefined ? binding.addressFor(path) : address;
    if (next.origin !== origin || next.basePath !== basePath) return undefined;
    return `${door}${this.#prefix}${path}`;
  }

  #unusual(reference: string, door: string): string {
    const { address, proxied } = this.#call;
    const requested = `${address.origin}${address.basePath}${proxied.path}`;
    const isWhole = /^[a-z][a-z0-9+.-]*:/i.test(reference);
    if (!isWhole && !URL.canParse(reference, requested)) return requested;
    const whole = isWhole ? reference : new URL(reference, requested).href;
    const url = partsOf(isWhole ? normalize(reference, requested) : whole);
    if (url === undefined) return whole;
    const { url: target = "" } = this.#request;
    // The caller uses the listener as its forward proxy, and names the provider's host as in its request.
    if (!target.startsWith("/")) return this.#throughProxy(url, target) ?? whole;
    const path = this.#pathTo(url);
    return path === undefined ? whole : `${door}${this.#prefix}${path}${url.fragment}`;
  }

  /** Returns the path of a proxied request that reaches the URL; undefined: none does. */
  #pathTo({ host, rest }: Parts): string | undefined {
    const { address, options, binding } = this.#call;
    // A caller that names an address names it in its next request too.
    const addressFor = (path: string) => (options.baseUrl === undefined ? binding.addressFor(path) : address);
    const bases = new Set([address.basePath, addressFor("/").basePath, ""]);
    for (const base of bases) {
      if (!rest.startsWith(`${base}/`)) continue;
      const path = rest.slice(base.length);
      if (mistakeInPath(path) !== undefined) continue;
      const { origin, basePath } = addressFor(path);
      if (basePath === base && partsOf(`${origin}/`)?.host === host) return path;
    }
    return undefined;
  }

  #throughProxy({ authority, rest, fragment }: Parts, target: string): string | undefined {
    const [scheme = ""] = /^https?:\/\//i.exec(target) ?? [];
    const url = `${scheme.toLowerCase()}${authority}${rest}`;
    const isBound = this.#call.binding.pathWithin(url) !== undefined && mistakeInPath(rest) === undefined;
    return isBound ? `${url}${fragment}` : undefined;
  }
}

/** A path that `URL` would leave as it is: no authority, no dot segment, nothing to encode. */
const plainPath = /^\/(?!\/)(?:(?!\.)[\w~!$&()*+,;=:@?.-]*\/)*(?!\.)[\w~!$&()*+,;=:@?.-]*$/;

interface Parts {
  readonly authority: string;
  /** The form of `URL`: lower case, without the default port. */
  readonly host: string;
  /** Path and query as written. */
  readonly rest: string;
  readonly fragment: string;
}

/**
 * Writes a URL as `https://host/…` that clients accept in other forms: `https:/host/…`, `https:\\host`, with a user name.
 * A client would follow each of them to the provider's own address.
 */
function normalize(reference: string, requested: string): string {
  if (!/^https?:/i.test(reference) || /^https?:\/\/[^/?#\\@\s]+(?:[/?#]|$)/i.test(reference)) return reference;
  if (!URL.canParse(reference, requested)) return reference;
  const url = new URL(reference, requested);
  url.username = "";
  url.password = "";
  return url.href;
}

/** Returns undefined if the URL is no address of a provider. `http` of the same host counts as the provider too. */
function partsOf(whole: string): Parts | undefined {
  const [, scheme, authority = "", written = "", fragment = ""] =
    /^(https?):\/\/([^/?#\\@\s]+)([^#]*)(.*)$/is.exec(whole) ?? [];
  if (scheme === undefined || !URL.canParse(`${scheme}://${authority}`)) return undefined;
  const { host } = new URL(`${scheme}://${authority}`);
  return { authority, host, rest: written.startsWith("/") ? written : `/${written}`, fragment };
}

/** Returns this listener's address as the caller knows it, `http://localhost:3003`; empty without a Host header. */
function listenerUrl({ headers, rawHeaders, socket }: FrontHead): string {
  const { host } = headers;
  if (host === undefined || host === "") return "";
  return `${isSecure(socket) || saysSecure(rawHeaders) ? "https" : "http"}://${host}`;
}

const isSecure = (socket: Socket): boolean => "encrypted" in socket && socket.encrypted === true;

/** Returns whether an ingress says that it ended TLS. A caller that forges the header only misleads itself. */
function saysSecure(rawHeaders: readonly string[]): boolean {
  return rawHeaders.some((name, i) => {
    if (i % 2 === 1) return false;
    const lower = lowerCase(name);
    const value = rawHeaders[i + 1] ?? "";
    if (lower === "x-forwarded-proto") return /^\s*https\s*(?:,|$)/i.test(value);
    return lower === "forwarded" && /^[^,]*\bproto="?https\b/i.test(value);
  });
}
