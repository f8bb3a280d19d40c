/** The session of this browser, and what it may do. */
import { computed, signal } from "@preact/signals";
import { Scope } from "../../gen/latchkey/v1/access_pb.ts";
import type { GetCallerResponse } from "../../gen/latchkey/v1/environment_pb.ts";
import { queryValue } from "./router.ts";

/**
 * The session has two secrets. One is in a cookie that no script reads; this one is in the storage of this origin, which
 * other ports of the host do not see. Calls carry both.
 */
const storedName = "latchkey-session";

/** The caller of this page's calls; undefined until it is known, null without a session. */
export const caller = signal<GetCallerResponse | null | undefined>(undefined);

const secret = signal(window.localStorage.getItem(storedName));
/** Why the sign-in page is shown, if a session has ended. */
export const sessionEnd = signal("");

/** Adds what the calls of this page are authorized by. */
export function authorizeCall(header: Headers): void {
  if (secret.value !== null) header.set("latchkey-session", secret.value);
  const environment = queryValue("env");
  if (environment !== "") header.set("latchkey-environment", environment);
}

/** Forgets the session, so that the sign-in page is shown. */
export function forgetSession(reason = ""): void {
  window.localStorage.removeItem(storedName);
  // Several calls fail at once: the first one says why.
  if (secret.value !== null) sessionEnd.value = reason;
  secret.value = null;
  caller.value = null;
}

export const hasSession = computed(() => secret.value !== null);

// Another tab of this browser has signed in or out.
window.addEventListener("storage", ({ key, newValue }) => {
  if (key !== storedName) return;
  if (newValue === null && secret.value !== null) sessionEnd.value = "This browser was signed out in another tab.";
  secret.value = newValue;
  caller.value = newValue === null ? null : undefined;
});

/** Whether the session has a scope. What is refused by the server is shown as disabled, with the reason. */
export function may(scope: Scope): boolean {
  const scopes = caller.value?.scopes ?? [];
  return scope === Scope.UNSPECIFIED || scopes.includes(scope) || scopes.includes(Scope.ADMIN);
}

/** Whether there may be several environments; a key of one environment sees that one alone. */
export const mayReadEnvironments = (): boolean =>
  (caller.value?.environment === "" || caller.value?.person !== "") && may(Scope.CONNECTIONS_READ);

/** A link that signs in once, with the page to show afterwards. */
export interface SignInLink {
  readonly token: string;
  readonly returnTo: string;
}

/** Takes the link out of the address, so that it stays in no history. */
function takeLink(): SignInLink | undefined {
  const fragment = new URLSearchParams(window.location.hash.slice(1));
  const token = fragment.get("link");
  if (token === null) return undefined;
  window.history.replaceState(undefined, "", `${window.location.pathname}${window.location.search}`);
  const to = fragment.get("to") ?? "";
  return { token, returnTo: /^\/ui\/(?!\/)/.test(to) ? to : "/ui/" };
}

/** Returns why the identity provider's sign-in failed, if the browser comes from there. */
function takeProblem(): string {
  const problem = new URLSearchParams(window.location.hash.slice(1)).get("problem");
  if (problem === null) return "";
  window.history.replaceState(undefined, "", window.location.pathname);
  return problems[problem] ?? "The sign-in failed. The log of Latchkey says why.";
}

const problems: Readonly<Record<string, string>> = {
  no_access: "You signed in, but none of your groups may use this dashboard. Ask the people who run Latchkey.",
  refused: "The identity provider did not sign you in.",
  not_begun: "The sign-in took too long, or was not begun in this browser. Begin again.",
};

sessionEnd.value = takeProblem();

/** The link that this page was opened with. */
export const signInLink = signal(takeLink());
window.addEventListener("hashchange", () => {
  signInLink.value = takeLink() ?? signInLink.value;
});

/** How people may sign in. */
export interface WaysIn {
  /** Name of the identity provider; undefined if there is none. */
  readonly identityProvider: string | undefined;
}

/** A sign-in that was refused. */
export class SignInRefused extends Error {}

/** Signs in with a key, or with the token of a link. */
export async function signIn(proof: { readonly key: string } | { readonly link: string }): Promise<void> {
  const { secret: given } = (await ask("POST", "/ui/session", proof)) as { readonly secret: string };
  window.localStorage.setItem(storedName, given);
  sessionEnd.value = "";
  caller.value = undefined;
  secret.value = given;
}

/** Returns how people may sign in. */
export async function waysIn(): Promise<WaysIn> {
  // Without the secret of a session: one that has ended is no reason to fail.
  const response = await fetch("/ui/session");
  const { sign_in: ways } = (await response.json()) as { sign_in?: { identity_provider: string | null } };
  return { identityProvider: ways?.identity_provider ?? undefined };
}

/** Leaves for the identity provider, which sends the browser back with a link. */
export async function leaveToSignIn(returnTo: string): Promise<void> {
  const { url } = (await ask("POST", "/ui/oidc/start", { return_to: returnTo })) as { readonly url: string };
  window.location.assign(url);
}

export async function signOut(): Promise<void> {
  try {
    await ask("DELETE", "/ui/session");
  } catch {
    /* The session has ended already, or ends by itself. */
  }
  forgetSession();
}

async function ask(method: string, path: string, body?: object): Promise<unknown> {
  const headers = new Headers();
  authorizeCall(headers);
  if (body !== undefined) headers.set("content-type", "application/json");
  let response: Response;
  try {
    response = await fetch(path, { method, headers, body: body === undefined ? null : JSON.stringify(body) });
  } catch {
    throw new SignInRefused("Latchkey does not answer. Check that it is running.");
  }
  const text = await response.text();
  const answer: unknown = text === "" ? undefined : JSON.parse(text);
  if (response.ok) return answer;
  const { error } = answer as { readonly error: { readonly code: string; readonly message: string } };
  throw new SignInRefused(refusals[error.code] ?? error.message);
}

const refusals: Readonly<Record<string, string>> = {
  unknown_key: "This key is not known, or it was revoked or has expired.",
  too_many_requests: "Too many sign-ins failed. Wait a minute, then try again.",
};
