import { Fault } from "../../base/fault.ts";
import type { Binding } from "./binding.ts";

/**
 * Returns the error for a requested address that credentials may not be sent to; the message says if only the scheme is
 * wrong.
 */
export function refusedAddress(binding: Pick<Binding, "addressAt">, baseUrl?: string): Fault {
  const secure = baseUrl?.replace(/^http:/i, "https:");
  if (secure !== undefined && secure !== baseUrl && binding.addressAt(secure) !== undefined) {
    return new Fault(
      "host_not_allowed",
      "the base URL override must begin with https://, like the provider's own address; list hosts without TLS in LATCHKEY_ALLOW_PRIVATE, as http://host:port",
    );
  }
  return new Fault("host_not_allowed", "this connection's credentials may not be sent to that host");
}
