import { describeUnreadable } from "./unreadable.ts";

/** Reads the files of the configuration. Tests replace it. */
export interface FileReader {
  /** Throws when the file cannot be read. */
  read(path: string): { readonly text: string; readonly mode: number };
}

/** Reads secrets from variables and files. Messages name the source, never the value. */
export interface SecretSource {
  fromFile(path: string): SecretOutcome;
  fromVariable(name: string): SecretOutcome;
}

export type SecretOutcome = { readonly value: string } | { readonly mistake: string };

interface SecretSourceOptions {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly files: FileReader;
}

/** Permission bits of users who are neither the owner nor in the group. */
const others = 0o007;

export const createSecretSource = ({ env, files }: SecretSourceOptions): SecretSource => ({
  fromFile(path) {
    try {
      const { text, mode } = files.read(path);
      if ((mode & others) !== 0) {
        return { mistake: `${path} is open to all users (mode ${(mode & 0o777).toString(8)}); run chmod 600` };
      }
      // Editors and `echo` end a file with a newline, which is not part of the secret.
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
