import type { Duplex } from "node:stream";
import { TLSSocket } from "node:tls";
import { lowerCase } from "../../base/http/field-name.ts";
import type { Span, Tracing } from "../../base/tracing.ts";
import type { RpcMessage } from "../../core/mcp/message-scanner.ts";
import type { OutgoingRequest } from "../../core/outgoing/outgoing.ts";
import type { FrontRequest, FrontResponse } from "../../relay/client/incoming.ts";
import { methodLabel } from "../mcp/method-label.ts";
import { isUnderMcp, mcpPrefix } from "../mcp/target.ts";
import { type ProviderCall, proxyPrefix } from "./provider-call.ts";

/**
 * The spans of a proxied request: one for the request, and within it one for each attempt. Attributes follow
 * OpenTelemetry's conventions for HTTP, without those that could hold a secret of the caller: paths, queries, headers.
 */
export interface ProxyTrace {
  /** ID of the trace. */
  readonly id: string;
  /** The connection was found. */
  noteConnection(call: ProviderCall): void;
  /** The message to an MCP server was read. */
  noteMessage(message: RpcMessage): void;
  attempt(call: ProviderCall): AttemptTrace;
  /** The last attempt is over, and another one follows. */
  noteRetry(): void;
  /** The response is now a tunnel: the spans do not wait for its end. */
  noteTunnel(): void;
}

export interface AttemptTrace {
  /** The request with this attempt's trace context in place of the caller's. */
  withContext(going: OutgoingRequest): OutgoingRequest;
  noteStatus(status: number): void;
  /** No further bytes of the response come. */
  noteFailure(code: string): void;
  /** The response is complete. */
  end(): void;
}

interface TracedCall {
  readonly request: FrontRequest;
  readonly response: FrontResponse;
  /** The stream whose close ends the trace; by default the response. */
  readonly until?: Duplex;
}

/** RFC 9110, section 9, and RFC 5789. The conventions call all other methods `_OTHER`. */
const methods = new Set(["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"]);
/** Names of tools are the caller's: longer ones are not sent. */
const maxNameLength = 255;

export function beginProxyTrace(tracing: Tracing, { request, response, until }: TracedCall): ProxyTrace {
  const { method = "" } = request;
  const route = `${isUnderMcp(request) ? mcpPrefix : proxyPrefix}/*`;
  const isKnown = methods.has(method);
  const spanOf = (kind: "server" | "client", parent: Span | string | undefined): Span => {
    const verb = isKnown ? method : "HTTP";
    const made = tracing.span(kind === "server" ? `${verb} ${route}` : verb, { kind, parent });
    made.set("http.request.method", isKnown ? method : "_OTHER");
    return made;
  };
  // Repeated headers arrive joined by commas, which is no valid context.
  const { traceparent } = request.headers;
  const span = spanOf("server", typeof traceparent === "string" ? traceparent : undefined);
  span.set("http.route", route);
  span.set("url.scheme", request.socket instanceof TLSSocket ? "https" : "http");
  // The form of the conventions.
  span.set("network.protocol.version", request.httpVersion === "2.0" ? "2" : request.httpVersion);
  let attempts = 0;
  let current: Span | undefined;
  /** The failure of the provider; without one, the caller ended a response that did not finish. */
  let failure: string | undefined;
  let isOver = false;

  interface Ending {
    readonly status: number | undefined;
    /** The code of Latchkey's own error response. */
    readonly fault?: string | undefined;
    /** The cause of a cut response. */
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
    // Conventions do not count a caller's mistake as an error of the server; the type is recorded all the same.
    const isOfCaller = cut === undefined && status !== undefined && status < 500;
    if (!isOfCaller) span.fail(why ?? String(status));
    else if (fault !== undefined) span.set("error.type", fault);
    span.end();
  }

  (until ?? response).once("close", () => {
    const fault = response.getHeader("latchkey-error");
    end({
      status: response.headersSent ? response.statusCode : undefined,
      fault: typeof fault === "string" ? fault : undefined,
      cut: response.writableFinished ? undefined : (failure ?? callerLeft),
    });
  });

  return {
    // The second field of the header (W3C Trace Context, section 3.2).
    id: span.traceparent.split("-")[1] ?? "",
    noteMessage({ method, name }) {
      span.set("mcp.method.name", methodLabel("POST", method));
      if (method === "tools/call" && name !== undefined && name.length <= maxNameLength)
        span.set("gen_ai.tool.name", name);
    },
    noteConnection({ live, caller }) {
      const { ref } = live.connection;
      span.set("latchkey.environment", ref?.environment ?? "");
      span.set("latchkey.integration", ref?.integration ?? "");
      span.set("latchkey.connection", ref?.id ?? "");
      span.set("latchkey.credentials", live.credentials.kind.case ?? "none");
      if (caller.accessSession !== undefined) span.set("latchkey.access_session", caller.accessSession.id);
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
    noteRetry() {
      current?.end();
    },
    noteTunnel() {
      end({ status: 101 });
    },
  };
}

/** The caller left before the response ended. */
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
    withContext: ({ proxied, ...going }) => ({
      ...going,
      proxied: { ...proxied, rawHeaders: without(proxied.rawHeaders, parent) },
      traceparent: span.traceparent,
    }),
    noteStatus: answered,
    noteFailure: failed,
    end: () => span.end(),
  };
}

const disguise = "nango-proxy-";

/** Removes the caller's context. A `tracestate` stays only with its trace (W3C Trace Context, section 3.3). */
function without(rawHeaders: readonly string[], { hasParent }: Span): readonly string[] {
  const isOurs = (name: string) => name === "traceparent" || (name === "tracestate" && !hasParent);
  return rawHeaders.filter((_, i) => {
    const lower = lowerCase(rawHeaders[i & ~1] ?? "");
    return !isOurs(lower.startsWith(disguise) ? lower.slice(disguise.length) : lower);
  });
}
