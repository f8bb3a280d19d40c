/** Codes of TLS errors, by what the operator has to change. */
const tlsAdvice: readonly (readonly [codes: RegExp, advice: string])[] = [
  [
    /UNABLE_TO_VERIFY_LEAF_SIGNATURE|UNABLE_TO_GET_ISSUER_CERT|SELF_SIGNED_CERT|DEPTH_ZERO/,
    "the broker's certificate is of an unknown authority; set LATCHKEY_BROKERS_CA to that authority's PEM file",
  ],
  [
    /ALTNAME_INVALID/,
    "the broker's certificate is for another host; use a name of the certificate in LATCHKEY_BROKERS, or issue it for this one",
  ],
  [/^CERT_HAS_EXPIRED$/, "the broker's certificate has expired; renew it"],
  [/^CERT_NOT_YET_VALID$/, "the broker's certificate is not valid yet; compare the clocks"],
  [
    /CERTIFICATE_REQUIRED|HANDSHAKE_FAILURE/,
    "the broker requires a client certificate; set LATCHKEY_BROKERS_CLIENT_CERT and LATCHKEY_BROKERS_CLIENT_KEY",
  ],
  [
    /ALERT_UNKNOWN_CA|ALERT_BAD_CERTIFICATE|ALERT_CERTIFICATE_UNKNOWN|ALERT_DECRYPT_ERROR|ALERT_UNSUPPORTED_CERT/,
    "the broker refuses the edge's certificate; its authority must be in tls.control.client_ca of the brokers",
  ],
  [/ALERT_CERTIFICATE_EXPIRED/, "the edge's certificate has expired; renew LATCHKEY_BROKERS_CLIENT_CERT"],
  [
    /KEY_VALUES_MISMATCH/,
    "LATCHKEY_BROKERS_CLIENT_KEY does not belong to LATCHKEY_BROKERS_CLIENT_CERT; both were probably not replaced together",
  ],
  [
    /WRONG_VERSION_NUMBER|PACKET_LENGTH_TOO_LONG|RECORD_LAYER/,
    "the broker's listener has no TLS; use http:// in LATCHKEY_BROKERS, or configure tls.control of the brokers",
  ],
];

/** Describes why a broker cannot be reached, and what to change if that is known. */
export function brokerTrouble(error: Error): string {
  const { code = "" } = error as NodeJS.ErrnoException;
  const found = tlsAdvice.find(([codes]) => codes.test(code));
  return found === undefined ? error.message : `${found[1]} (${code})`;
}

/** Describes a connection that ended before the broker has answered. */
export const closedEarly = (url: string): string =>
  url.startsWith("https:")
    ? "the broker closed the connection; if it requires client certificates, it does not accept this one, or has got none"
    : "the broker closed the connection; if its listener has TLS, use https:// in LATCHKEY_BROKERS";
