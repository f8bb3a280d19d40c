import { Fault } from "../../base/fault.ts";
import { type DoorGuard, hostName, type RequestOrigin } from "../../base/http/door-guard.ts";
import { byFieldName, lowerCase } from "../../base/http/field-name.ts";
import { createNote } from "../../base/memo.ts";
import { type FrontHead, type FrontRequest, mistakeInFraming } from "../../relay/client/incoming.ts";
import { checkBrowser, type PageOrigins } from "../connect/page-origin.ts";
import type { ForwardTarget } from "../proxy/forwarding/forward-target.ts";
import type { Route } from "./routes.ts";

/** Checks the head of a request first. Its methods throw the fault to answer. */
export interface HeadCheck {
  /** `browser`: other sites' pages may use the route. Returns the origin of the page that may read the response. */
  check(request: FrontRequest, browser?: Route["browser"]): string | undefined;
  /** The same check for a request to a provider. */
  checkForProvider(request: FrontHead): void;
  /** The same check for a request inside of a tunnel, which must be for the tunnel's host. */
  checkInTunnel(request: FrontHead, target: ForwardTarget): void;
  targetOf(request: FrontRequest): { readonly path: string; readonly query: string };
}

interface HeadCheckOptions {
  readonly guard: DoorGuard;
  readonly origins: PageOrigins | undefined;
  readonly limits: { readonly headLines: number; readonly pathBytes: number };
}

/** Headers that must not repeat: two parsers could read different values from one request. */
export const singleHeaders = [
  "authorization",
  "base-url-override",
  "connection-id",
  "content-type",
  "host",
  "latchkey-key",
  "latchkey-subject-token",
  "latchkey-token",
  "provider-config-key",
  "proxy-authorization",
  "retries",
  "retry-on",
];
/** A bit for each of these headers; 0 for any other. */
const singleBit = byFieldName((lower) => (1 << (singleHeaders.indexOf(lower) + 1)) & ~1);

export const isInAbsoluteForm = ({ url = "" }: FrontHead): boolean => /^https?:\/\//i.test(url);

export function createHeadCheck({ guard, origins, limits }: HeadCheckOptions): HeadCheck {
  /** Repeated headers that passed the check while these hosts were served. */
  const passed = createNote<ReadonlySet<string>>();

  /** Repeated headers that passed the check inside of tunnels to this host. */
  const passedInTunnel = createNote<string>();

  function checkForm(request: FrontHead): void {
    const { rawHeaders } = request;
    const framing = mistakeInFraming(request);
    if (framing !== undefined) throw new Fault("malformed_request", framing);
    if (rawHeaders.length / 2 > limits.headLines) {
      throw new Fault("headers_too_large", `the request must have at most ${limits.headLines} headers`);
    }
    requireSingle(rawHeaders);
  }

  function check(request: FrontHead, browser?: Route["browser"]): string | undefined {
    const { headers, method = "" } = request;
    checkForm(request);
    const { host, origin, fetchSite } = originOf(request);
    // RFC 9112, 3.2.
    if (host === undefined && request.httpVersion === "1.1") {
      throw new Fault("malformed_request", "the request must have a Host header");
    }
    if (isInAbsoluteForm(request)) {
      // RFC 9112, 3.2: an invalid Host is refused even where the target replaces it.
      if (host !== undefined && hostName(host) === undefined) {
        throw new Fault("malformed_request", "the Host header must be one host, with or without a port");
      }
      guard.checkPage({ origin, fetchSite });
    } else if (browser === undefined || origins === undefined) guard.check({ host, origin, fetchSite });
    else {
      guard.checkHost(host);
      return checkBrowser(browser, { method, headers }, origins);
    }
    return undefined;
  }

  function checkTunneled(request: FrontHead, { origin: own, authority }: ForwardTarget): void {
    checkForm(request);
    const { host, origin, fetchSite } = originOf(request);
    if (host === undefined || withoutDefaultPort(host) !== authority) {
      throw new Fault("misdirected_request", `this tunnel is for ${authority}; the Host header names another host`);
    }
    if (!(request.url ?? "").startsWith("/") && request.url !== "*") {
      throw new Fault("misdirected_request", "a request inside of a tunnel must name a path, and no whole URL");
    }
    // A page of another site must not use the credentials that are added here.
    if (origin === own || (origin === undefined && (fetchSite === undefined || fetchSite === "none"))) return;
    if (origin === undefined && fetchSite === "same-origin") return;
    guard.checkPage({ origin, fetchSite });
  }

  function requireShort(url: string): void {
    // A character has three bytes at most.
    if (url.length * 3 <= limits.pathBytes || Buffer.byteLength(url) <= limits.pathBytes) return;
    throw new Fault("uri_too_long", `the path must have at most ${limits.pathBytes} bytes`);
  }

  return {
    check,
    checkForProvider(request) {
      const { memo, url = "" } = request;
      if (memo === undefined || !url.startsWith("/")) {
        check(request);
      } else if (passed.of(memo) !== guard.served()) {
        check(request);
        const { origin, fetchSite } = originOf(request);
        if (origin === undefined && fetchSite === undefined) passed.keep(memo, guard.served());
      }
      requireShort(url);
    },
    checkInTunnel(request, target) {
      const { memo, url = "" } = request;
      if (memo === undefined || !url.startsWith("/") || passedInTunnel.of(memo) !== target.authority) {
        checkTunneled(request, target);
        const { origin, fetchSite } = originOf(request);
        if (memo !== undefined && origin === undefined && fetchSite === undefined) {
          passedInTunnel.keep(memo, target.authority);
        }
      }
      requireShort(url);
    },
    targetOf({ url = "", method }) {
      if (url === "*" && method === "OPTIONS") return { path: "*", query: "" };
      requireShort(url);
      if (!url.startsWith("/")) throw new Fault("invalid_path", "the request must name a path");
      const at = url.indexOf("?");
      return at === -1 ? { path: url, query: "" } : { path: url.slice(0, at), query: url.slice(at + 1) };
    },
  };
}

const originOf = ({ headers }: FrontHead): RequestOrigin => ({
  host: headers.host,
  origin: headers.origin,
  fetchSite: headers["sec-fetch-site"] as string | undefined,
});

/** Throws if a header that must not repeat does. */
export function requireSingle(rawHeaders: readonly string[]): void {
  let seen = 0;
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] ?? "";
    const bit = singleBit(name);
    if ((seen & bit) !== 0) {
      throw new Fault("duplicate_header", `the header ${lowerCase(name)} must be sent once`);
    }
    seen |= bit;
  }
}

const withoutDefaultPort = (host: string): string => host.replace(/:443$/, "").toLowerCase();
