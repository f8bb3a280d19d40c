import type { Duplex } from "node:stream";
import { TLSSocket } from "node:tls";
import { lowerCase } from "../../base/http/field-name.ts";
import type { Span, Tracing } from "../../base/tracing.ts";
import type { OutgoingRequest } from "../../core/outgoing/outgoing.ts";
import type { FrontRequest, FrontResponse } from "../../relay/client/incoming.ts";
import { type ProviderCall, proxyPrefix } from "./provider-call.ts";

/**
 * One proxied request in spans: one for what the caller asked of us, and within it one for each attempt to have it from
 * the provider. Attributes are by OpenTelemetry's conventions for HTTP, less what could tell a secret: paths, queries
 * and fields are the caller's own.
 */
export interface ProxyTrace {
  /** The connection is at hand. */
  found(call: ProviderCall): void;
  attempt(call: ProviderCall): AttemptTrace;
  /** The last attempt is over, and there is another. */
  again(): void;
  /** Its answer went on as something that has no end, and that no span waits for. */
  tunnelled(): void;
}

export interface AttemptTrace {
  /** The request with this attempt's trace context in place of the caller's. */
  joined(going: OutgoingRequest): OutgoingRequest;
  answered(status: number): void;
  /** Nothing more of an answer comes. */
  failed(code: string): void;
  /** The answer is complete. */
  ended(): void;
}

interface TracedCall {
  readonly request: FrontRequest;
  readonly response: FrontResponse;
  /** When it closes, all is over; by default the response. */
  readonly over?: Duplex;
}

/** RFC 9110, section 9, and RFC 5789. The conventions have one word for all others. */
const methods = new Set(["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"]);
const route = `${proxyPrefix}/*`;

export function beginProxyTrace(tracing: Tracing, { request, response, over }: TracedCall): ProxyTrace {
  const { method = "" } = request;
  const isKnown = methods.has(method);
  const spanOf = (kind: "server" | "client", parent: Span | string | undefined): Span => {
    const verb = isKnown ? method : "HTTP";
    const made = tracing.span(kind === "server" ? `${verb} ${route}` : verb, { kind, parent });
    made.set("http.request.method", isKnown ? method : "_OTHER");
    return made;
  };
  // Several of them arrive as one, with commas, and make no context.
  const { traceparent } = request.headers;
  const span = spanOf("server", typeof traceparent === "string" ? traceparent : undefined);
  span.set("http.route", route);
  span.set("url.scheme", request.socket instanceof TLSSocket ? "https" : "http");
  // As the conventions write it.
  span.set("network.protocol.version", request.httpVersion === "2.0" ? "2" : request.httpVersion);
  let attempts = 0;
  let current: Span | undefined;
  /** What the provider did to its answer; who else would have ended one that did not finish? */
  let failure: string | undefined;
  let isOver = false;

  interface Ending {
    readonly status: number | undefined;
    /** What we answered in the provider's place. */
    readonly fault?: string | undefined;
    /** Who or what kept the answer from its end. */
    readonly cut?: string | undefined;
  }

  function end({ status, fault, cut }: Ending): void {
    if (isOver) return;
    isOver = true;
    const why = fault ?? cut;
    if (why !== undefined) current?.fail(why);
    current?.end();
    if (attempts > 0) span.set("latchkey.retries", attempts - 1);
    if (status !== undefined) span.set("http.response.status_code", status);
    // By the conventions what a caller does wrong is no error of ours; what it is called is worth knowing all the same.
    const isOfCaller = cut === undefined && status !== undefined && status < 500;
    if (!isOfCaller) span.fail(why ?? String(status));
    else if (fault !== undefined) span.set("error.type", fault);
    span.end();
  }

  (over ?? response).once("close", () => {
    const fault = response.getHeader("latchkey-error");
    end({
      status: response.headersSent ? response.statusCode : undefined,
      fault: typeof fault === "string" ? fault : undefined,
      cut: response.writableFinished ? undefined : (failure ?? callerLeft),
    });
  });

  return {
    found({ live }) {
      const { ref } = live.connection;
      span.set("latchkey.environment", ref?.environment ?? "");
      span.set("latchkey.integration", ref?.integration ?? "");
      span.set("latchkey.connection", ref?.id ?? "");
      span.set("latchkey.credentials", live.credentials.kind.case ?? "none");
    },
    attempt({ origin }) {
      const own = spanOf("client", span);
      own.set("server.address", origin.host);
      own.set("server.port", origin.port);
      own.set("url.scheme", origin.scheme);
      own.set("network.protocol.version", "1.1");
      if (attempts > 0) own.set("http.request.resend_count", attempts);
      attempts += 1;
      current = own;
      failure = undefined;
      return attemptOf(own, span, (code) => {
        failure = code;
      });
    },
    again() {
      current?.end();
    },
    tunnelled() {
      end({ status: 101 });
    },
  };
}

/** Before it had its answer. */
const callerLeft = "caller_left";

function attemptOf(span: Span, parent: Span, onFailed: (code: string) => void): AttemptTrace {
  const failed = (code: string): void => {
    span.fail(code);
    span.end();
    onFailed(code);
  };
  const answered = (status: number): void => {
    span.set("http.response.status_code", status);
    if (status >= 400) span.fail(String(status));
  };
  return {
    joined: ({ asked, ...going }) => ({
      ...going,
      asked: { ...asked, rawHeaders: without(asked.rawHeaders, parent) },
      traceparent: span.traceparent,
    }),
    answered,
    failed,
    ended: () => span.end(),
  };
}

const disguise = "nango-proxy-";

/** A `tracestate` belongs to its trace: of one that was not joined it is let go (W3C Trace Context, 3.3). */
function without(rawHeaders: readonly string[], { hasParent }: Span): readonly string[] {
  const isOurs = (name: string) => name === "traceparent" || (name === "tracestate" && !hasParent);
  return rawHeaders.filter((_, i) => {
    const lower = lowerCase(rawHeaders[i & ~1] ?? "");
    return !isOurs(lower.startsWith(disguise) ? lower.slice(disguise.length) : lower);
  });
}
