/** The result of one check. */
export interface Finding {
  readonly check: string;
  readonly status: "ok" | "warn" | "fail";
  readonly message: string;
  /** What to do. */
  readonly remedy?: string;
}
