import type { EvaluationFailure } from "./values.ts";

/** The body of a request: its bytes, or why there are none. */
export type JudgedBody =
  | { readonly kind: "none" }
  | { readonly kind: "bytes"; readonly bytes: Uint8Array }
  /** The body was not read yet. `size` is undefined for a body whose length is not known. */
  | { readonly kind: "unread"; readonly size: number | undefined }
  | { readonly kind: "refused"; readonly failure: EvaluationFailure; readonly size: number | undefined };
