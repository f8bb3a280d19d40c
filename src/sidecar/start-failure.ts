/** The reason why Latchkey cannot start, in a sentence for its operator. */
export class StartFailure extends Error {
  override readonly name = "StartFailure";
}
