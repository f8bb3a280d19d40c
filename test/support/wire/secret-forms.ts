/** The encodings in which a leaked secret may appear. */
export function formsOf(secret: string): readonly string[] {
  const bytes = Buffer.from(secret);
  // Base64 within a longer text has one of three offsets; the characters shared with the neighbors are dropped.
  const shifted = [0, 1, 2].map((by) => Buffer.concat([Buffer.alloc(by), bytes]).toString("base64"));
  const inner = shifted.map((text, by) => text.slice(by === 0 ? 0 : by + 1).replace(/.{0,4}$/, ""));
  const hex = bytes.toString("hex");
  const encoded = [...bytes].map((byte) => `%${byte.toString(16).padStart(2, "0")}`).join("");
  return [
    secret,
    [...secret].reverse().join(""),
    ...inner,
    ...inner.map((text) => text.replaceAll("+", "-").replaceAll("/", "_")),
    hex,
    hex.toUpperCase(),
    encoded,
    encoded.toUpperCase(),
    encodeURIComponent(secret).replaceAll("-", "%2D"),
    [...secret].map((letter) => `${letter}\0`).join(""),
  ];
}
