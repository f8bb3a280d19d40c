import { Fault } from "../../base/fault.ts";
import type { Address, Binding } from "../../core/outgoing/binding.ts";
import type { ProxyOptions } from "../../core/outgoing/proxy-options.ts";
import { refusedAddress } from "../../core/outgoing/refused-address.ts";
import { proxyPrefix } from "./provider-call.ts";

interface AddressedRequest {
  readonly url: string;
  readonly isAlias: boolean;
  readonly binding: Binding;
  /** The address of all requests, unless they name another one. */
  readonly only: Address | undefined;
  readonly options: Pick<ProxyOptions, "baseUrl">;
}

/** Returns the provider's address for a request, and the path there. Throws for an address that is not allowed. */
export function addressOf({ url, isAlias, binding, only, options }: AddressedRequest): {
  readonly address: Address;
  readonly path: string;
} {
  // Absolute form: the caller uses Latchkey as its forward proxy.
  if (!url.startsWith("/")) {
    if (!/^https?:\/\//i.test(url)) throw new Fault("invalid_path", "the request must name a path");
    const within = binding.pathWithin(url);
    if (within === undefined) throw refusedAddress(binding);
    return within;
  }
  // A gRPC call has its path from the proto file, without a prefix.
  const path = isAlias || !url.startsWith(`${proxyPrefix}/`) ? url : url.slice(proxyPrefix.length);
  const address =
    options.baseUrl === undefined ? (only ?? binding.addressFor(path)) : binding.addressAt(options.baseUrl);
  if (address === undefined) throw refusedAddress(binding, options.baseUrl);
  return { address, path };
}
