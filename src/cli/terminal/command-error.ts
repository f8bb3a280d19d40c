/** A failure that a command found itself, with a code and next steps. */
export class CommandError extends Error {
  readonly code: string;
  readonly notes: readonly string[];

  constructor(code: string, message: string, notes: readonly string[] = []) {
    super(message);
    this.name = "CommandError";
    this.code = code;
    this.notes = notes;
  }
}
