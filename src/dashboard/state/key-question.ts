/** Calls that a session alone may not make: the person enters the key for that one call. */
import { signal } from "@preact/signals";

export interface KeyQuestion {
  /** What was refused, as the server says it. */
  readonly message: string;
  /** The key of the last try was refused. */
  readonly isWrong: boolean;
  /** Undefined: the person has changed their mind. */
  readonly answer: (key: string | undefined) => void;
}

export const keyQuestion = signal<KeyQuestion | undefined>(undefined);

/** Asks for the key. It is not kept. */
export function askForKey(message: string, { isWrong = false } = {}): Promise<string | undefined> {
  keyQuestion.value?.answer(undefined);
  return new Promise((resolve) => {
    keyQuestion.value = {
      message,
      isWrong,
      answer(key) {
        keyQuestion.value = undefined;
        resolve(key);
      },
    };
  });
}
