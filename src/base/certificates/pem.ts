/** Returns the text form of a certificate or a key. */
export function pemOf(label: "CERTIFICATE" | "PRIVATE KEY", der: Uint8Array): string {
  const lines =
    Buffer.from(der)
      .toString("base64")
      .match(/.{1,64}/g) ?? [];
  return `-----BEGIN ${label}-----\n${lines.join("\n")}\n-----END ${label}-----\n`;
}
