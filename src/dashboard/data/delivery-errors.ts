import { words } from "./format.ts";

const errors: Readonly<Record<string, string>> = {
  refused: "Connection refused",
  unknown_host: "Unknown host",
  unreachable: "Host not reachable",
  untrusted: "Certificate not trusted",
  connect_timeout: "No connection in time",
  answer_timeout: "No answer in time",
  deadline: "No answer in time",
  closed: "Connection closed",
  cut_off: "Answer cut off",
  address_forbidden: "Private address",
  egress_proxy: "Egress proxy failed",
  egress_refused: "Egress proxy refused",
  gone: "Answered 410 (gone)",
};

/** Why an attempt got no answer. */
export const errorText = (code: string): string => errors[code] ?? words(code);

/** Why a delivery is in its state: `status_500`, or the code of an error. */
export const reasonText = (reason: string): string =>
  reason.startsWith("status_") ? `Answered ${reason.slice("status_".length)}` : errorText(reason);
