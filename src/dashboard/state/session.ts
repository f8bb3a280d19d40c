/** The session of this page, and what its key may do. */
import { computed, signal } from "@preact/signals";
import { Scope } from "../../gen/latchkey/v1/access_pb.ts";
import type { GetCallerResponse } from "../../gen/latchkey/v1/environment_pb.ts";

const storedName = "latchkey-key";

/** The caller of this page's calls; undefined until it is known, null without a session. */
export const caller = signal<GetCallerResponse | null | undefined>(undefined);

const key = signal(window.sessionStorage.getItem(storedName));

/** Adds what the calls of this page are authorised by. */
export function authorizeCall(header: Headers): void {
  if (key.value !== null) header.set("authorization", `Bearer ${key.value}`);
}

export function keepKey(value: string): void {
  window.sessionStorage.setItem(storedName, value);
  key.value = value;
}

/** Forgets the session, so that the sign-in page is shown. */
export function forgetSession(): void {
  window.sessionStorage.removeItem(storedName);
  key.value = null;
  caller.value = null;
}

export const hasSession = computed(() => key.value !== null);

/** Whether the caller's key has a scope. What is refused by the server is shown as disabled, with the reason. */
export function may(scope: Scope): boolean {
  const scopes = caller.value?.scopes ?? [];
  return scope === Scope.UNSPECIFIED || scopes.includes(scope) || scopes.includes(Scope.ADMIN);
}

/** Whether the list of environments may be read; a key of one environment sees that one alone. */
export const mayReadEnvironments = (): boolean => caller.value?.environment === "" && may(Scope.ADMIN);

export async function signOut(): Promise<void> {
  forgetSession();
}
