/**
 * Texts that Latchkey signs for strangers, to answer a challenge. Without dots, colons and brackets, none of them is a
 * JWT, a JSON object, a URL or a query: what other signatures with the same key are over.
 */
const form = /^[A-Za-z0-9+/=_~-]{1,256}$/;
const maxLength = 256;

export const isChallengeText = (text: string): boolean => form.test(text);

/** Reports whether a signed content could be the text of a challenge. */
export function isChallengeContent(content: readonly Uint8Array[]): boolean {
  const length = content.reduce((sum, piece) => sum + piece.length, 0);
  return length <= maxLength && isChallengeText(Buffer.concat(content).toString("latin1"));
}
