import type { Attempt } from "../../../gen/latchkey/v1/webhook_pb.ts";

/** Explains the result of a delivery attempt to the person who operates the application, with what to do. */
export function explainAnswer({ status, error }: Pick<Attempt, "status" | "error">): string {
  if (status === 0) return byError.get(error) ?? `There was no usable answer (${error}).`;
  if (status >= 200 && status <= 299) return "The application accepted the message.";
  const meaning = byStatus.get(status) ?? byClass.get(Math.trunc(status / 100)) ?? "";
  return `The application answered ${status}. ${meaning}`.trim();
}

const byError: ReadonlyMap<string, string> = new Map([
  ["refused", "Nothing listens at this address. Check that the application runs, and the host and port of the URL."],
  ["unknown_host", "The host name has no address. Check its spelling, and the DNS that Latchkey uses."],
  ["unreachable", "The host cannot be reached from Latchkey. Check the network and the firewall between them."],
  ["untrusted", "The application's certificate is not trusted. Check its name, its date and its issuer."],
  ["connect_timeout", "The host did not accept a connection in time. Check the host, the port and the firewall."],
  ["deadline", "The application did not answer in time. Answer first, and do slow work afterwards."],
  ["answer_timeout", "The application did not answer in time. Answer first, and do slow work afterwards."],
  ["malformed", "The answer is not HTTP. Check the port, and http or https in the URL."],
  ["cut_off", "The application closed the connection within its answer. Look at its log for a crash."],
  ["closed", "The application closed the connection without an answer. Look at its log for a crash."],
  ["too_large", "The application's answer is too large. Answer with a short body or none."],
  ["address_forbidden", "Deliveries to private addresses are not allowed for a connection's own URL."],
  ["egress_proxy", "The egress proxy cannot be reached or used. List hosts of your own network in egress.no_proxy."],
  ["egress_refused", "The egress proxy forbids the host. Allow it there, or list it in egress.no_proxy."],
  ["unsendable", "The URL cannot be called. Correct the forward URL."],
]);

const refusesMessage =
  "It refuses the message: check that it verifies with this environment's signing secret, and that no sign-in protects the URL.";
const byStatus: ReadonlyMap<number, string> = new Map([
  [401, refusesMessage],
  [403, refusesMessage],
  [404, "It has nothing at this path: check the path of the URL."],
  [405, "It accepts no POST requests at this path: check the path of the URL."],
  [410, "It wants no more deliveries: a real delivery would pause this destination."],
  [413, "It finds the message too large: raise its limit for request bodies."],
  [429, "It is busy: deliveries would be retried later."],
]);

const byClass: ReadonlyMap<number, string> = new Map([
  [3, "Deliveries do not follow redirects: set the final URL as the forward URL."],
  [4, "It refuses the message: look for the webhook-id in its log."],
  [5, "It failed: look for the webhook-id in its log. Deliveries would be retried."],
]);
