import { describeUnreadable } from "./unreadable.ts";

/** Reads files for the configuration; a test gives its own. */
export interface FileReader {
  /** Throws when the file cannot be read. */
  read(path: string): { readonly text: string; readonly mode: number };
}

/** Where secrets come from. What goes wrong is said by name, and never with a value. */
export interface SecretSource {
  fromFile(path: string): SecretOutcome;
  fromVariable(name: string): SecretOutcome;
}

export type SecretOutcome = { readonly value: string } | { readonly mistake: string };

interface SecretSourceOptions {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly files: FileReader;
}

/** Whoever is neither the owner nor of the group. */
const others = 0o007;

export const createSecretSource = ({ env, files }: SecretSourceOptions): SecretSource => ({
  fromFile(path) {
    try {
      const { text, mode } = files.read(path);
      if ((mode & others) !== 0) {
        return { mistake: `${path} is open to everybody (mode ${(mode & 0o777).toString(8)}); make it 600` };
      }
      // Editors and `echo` end a file with a newline, which is no part of a secret.
      const value = text.replace(/\r?\n$/, "");
      return value === "" ? { mistake: `${path} is empty` } : { value };
    } catch (error) {
      return { mistake: describeUnreadable(path, error) };
    }
  },
  fromVariable(name) {
    const value = env[name];
    return value === undefined || value === "" ? { mistake: `the environment variable ${name} is not set` } : { value };
  },
});
