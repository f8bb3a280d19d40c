/** A mistake in the user's input. The message says what to type instead, and never quotes a secret. */
export class UsageMistake extends Error {
  override readonly name = "UsageMistake";
}
