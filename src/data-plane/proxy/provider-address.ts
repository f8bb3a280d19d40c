import { Fault } from "../../base/fault.ts";
import type { Address, Binding } from "../../core/outgoing/binding.ts";
import { mistakeInPath } from "../../core/outgoing/provider-path.ts";
import type { ProxyOptions } from "../../core/outgoing/proxy-options.ts";
import { refusedAddress } from "../../core/outgoing/refused-address.ts";
import type { McpRules } from "../../gen/latchkey/v1/provider_pb.ts";
import type { FrontHead } from "../../relay/client/incoming.ts";
import { isUnderMcp, mcpPath } from "../mcp/target.ts";
import type { ForwardTarget } from "./forwarding/forward-target.ts";
import { proxyPrefix } from "./provider-call.ts";

interface AddressedRequest {
  readonly request: FrontHead;
  /** Set if the provider is an MCP server. */
  readonly mcp: McpRules | undefined;
  readonly isAlias: boolean;
  readonly forward: ForwardTarget | undefined;
  readonly binding: Binding;
  /** The address of all requests, unless they name another one. */
  readonly only: Address | undefined;
  readonly options: Pick<ProxyOptions, "baseUrl">;
}

/** Returns the provider's address for a request, and the path there. Throws for an address that is not allowed. */
export function addressOf(addressed: AddressedRequest): AddressedPath {
  const { request, mcp, isAlias, forward } = addressed;
  const found = addressWithin(request.url ?? "", addressed);
  const isMcpRoute = !isAlias && forward === undefined && isUnderMcp(request);
  const { method } = request;
  const path = mcpPath({ method, isMcpRoute, rules: mcp, path: found.path, basePath: found.address.basePath });
  const mistake = mistakeInPath(path);
  if (mistake !== undefined) throw new Fault("invalid_path", mistake);
  return { address: found.address, path };
}

interface AddressedPath {
  readonly address: Address;
  readonly path: string;
}

function addressWithin(
  url: string,
  { isAlias, forward, binding, only, options }: Omit<AddressedRequest, "request" | "mcp">,
): AddressedPath {
  // The forward proxy: the request names its host.
  if (forward?.isTunnel === true) {
    const address = forward.addressIn(binding);
    if (address === undefined) throw refusedAddress(binding);
    requireSameHost(address, binding, options);
    return { address, path: url };
  }
  if (!url.startsWith("/")) {
    if (!/^https?:\/\//i.test(url)) throw new Fault("invalid_path", "the request must name a path");
    const within = binding.pathWithin(url);
    if (within === undefined) throw refusedAddress(binding);
    requireSameHost(within.address, binding, options);
    return within;
  }
  // A gRPC call has its path from the proto file, without a prefix.
  const path = isAlias || !url.startsWith(`${proxyPrefix}/`) ? url : url.slice(proxyPrefix.length);
  const address =
    options.baseUrl === undefined ? (only ?? binding.addressFor(path)) : binding.addressAt(options.baseUrl);
  if (address === undefined) throw refusedAddress(binding, options.baseUrl);
  return { address, path };
}

/** `Base-Url-Override` may only repeat the host that the request itself names. Throws for another one. */
function requireSameHost({ origin }: Address, binding: Binding, { baseUrl }: Pick<ProxyOptions, "baseUrl">): void {
  if (baseUrl === undefined) return;
  const other = binding.addressAt(baseUrl);
  if (other === undefined) throw refusedAddress(binding, baseUrl);
  if (other.origin === origin && other.basePath === "") return;
  throw new Fault(
    "invalid_headers",
    `this request goes to ${origin}; leave out Base-Url-Override, or send it with this value`,
  );
}
