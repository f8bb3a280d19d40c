/** What was typed cannot be done. The sentence says what to type instead; it never quotes a secret. */
export class UsageMistake extends Error {
  override readonly name = "UsageMistake";
}
