import type { Caller } from "../setup/caller.ts";

/** The caller of a request. */
export interface GatedCaller extends Pick<Caller, "keyId" | "scopes" | "identity"> {
  readonly accessSession?: { readonly id: string } | undefined;
}

/** A script, which has no key. */
export interface ScriptCaller {
  readonly script: string;
}
