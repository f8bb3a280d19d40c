/** Everything that is wrong with a configuration, at once. No message quotes a secret. */
export class ConfigMistakes extends Error {
  override readonly name = "ConfigMistakes";
  readonly mistakes: readonly string[];

  constructor(mistakes: readonly string[]) {
    super(mistakes.join("\n"));
    this.mistakes = mistakes;
  }
}
