import type { Socket } from "node:net";
import type { Attachment } from "../../auth/attachment.ts";
import type { LiveConnection } from "../../broker/credentials/live-connections.ts";
import type { Caller } from "../../broker/setup/caller.ts";
import type { AskingMessage } from "../../broker/traffic/send-to-provider.ts";
import type { IntegrationCount } from "../../broker/traffic/traffic-counts.ts";
import type { Address, Binding } from "../../core/outgoing/binding.ts";
import type { ProxiedHead } from "../../core/outgoing/outgoing.ts";
import type { ProxyOptions } from "../../core/outgoing/proxy-options.ts";
import type { Verdict } from "../../core/policies/policy-set.ts";
import type { ConnectionRef } from "../../gen/latchkey/v1/connection_pb.ts";
import type { ProxyRules } from "../../gen/latchkey/v1/provider_pb.ts";
import type { FrontHead, FrontRequest, FrontResponse } from "../../relay/client/incoming.ts";
import type { AdmittedOrigin } from "../../relay/origin.ts";
import type { ForwardTarget } from "./forwarding/forward-target.ts";
import type { ResponseCounter } from "./proxy-count.ts";
import type { UseRecorder } from "./use-records.ts";

export const proxyPrefix = "/proxy";
/** Other methods are allowed too, except TRACE and CONNECT. */
export const allowedMethods = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS";

/** A request to a provider, as it came. */
export interface CallContext {
  readonly request: FrontHead;
  /** The connection of an alias address, which needs no prefix and no connection headers. */
  readonly alias?: ConnectionRef | undefined;
  /** Set for a request of the forward proxy: then its target, not its path or headers, says what it is for. */
  readonly forward?: ForwardTarget | undefined;
  /** Name of the listener. */
  readonly listener?: string;
  /** A caller that was authenticated elsewhere. */
  readonly caller?: Caller | undefined;
  /** The message to our own MCP endpoint that asks for the request; undefined: none. */
  readonly message?: AskingMessage | undefined;
}

/** A call whose response can be observed. */
export interface ObservedCall extends CallContext {
  readonly request: FrontRequest;
  readonly response: FrontResponse;
  /** The socket of a request for a tunnel. */
  readonly socket?: Socket;
  /** The same request, prepared before it waited for an approval. It is not counted again. */
  readonly prepared?: Pick<ProviderCall, "use">;
  /** The longest time that the request may wait for an approval; undefined: as its caller and the policy say. */
  readonly longestWaitMs?: number;
}

/** A request with its connection that may be sent. */
export interface ProviderCall {
  readonly since: number;
  readonly caller: Caller;
  readonly live: LiveConnection;
  readonly attachment: Attachment;
  /** Names the connection. */
  readonly ref: ConnectionRef | undefined;
  /** Headers for the response, about the state of the connection. */
  readonly state: readonly string[];
  /** Counters of responses, by kind of credentials. */
  readonly responses: ResponseCounter;
  /** Counts the requests of the integration. */
  readonly integrationCount: IntegrationCount;
  /** A path that is shorter holds no credentials. */
  readonly shortestSecret: number;
  /** Identity of the attachment, for caching. */
  readonly stamp: object | undefined;
  /** Text of the attachment's headers and Latchkey's `Via`; undefined: the text differs for each request. */
  readonly ending: string | undefined;
  readonly proxied: ProxiedHead;
  readonly options: ProxyOptions;
  readonly binding: Binding;
  readonly address: Address;
  /** Path before the requested path. */
  readonly basePath: string;
  readonly proxy: ProxyRules | undefined;
  readonly origin: AdmittedOrigin;
  /** The value of a Host header. */
  readonly host: string;
  /** Set for an integration whose uses are recorded. */
  readonly use: UseRecorder | undefined;
  /** The message to our own MCP endpoint that asks for the request; undefined: none. */
  readonly message: AskingMessage | undefined;
  /** `Max-Forwards` makes Latchkey the last hop, which must answer. */
  readonly isLastHop: boolean;
  /** What policies say, as far as it is known without the body; undefined: there are no policies. */
  verdict: Verdict | undefined;
}
