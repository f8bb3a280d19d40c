import { randomBytes } from "node:crypto";
import type { Person } from "../people.ts";

/** One consent of a user. Revoking the grant ends every token that was issued for it. */
export interface SandboxGrant {
  readonly id: string;
  readonly clientId: string;
  readonly person: Person;
  readonly scopes: readonly string[];
  readonly createdAt: number;
  refreshes: number;
  /** Uses of a replaced refresh token after its grace period. */
  reuses: number;
  revoked: boolean;
}

/** The most access tokens and the most refresh tokens that are kept. */
export const maxTokens = 100_000;

/** Returns an opaque token of 192 random bits, recognizable in a log. */
export const newToken = (kind: "at" | "rt") => `sbx_${kind}_${randomBytes(24).toString("base64url")}`;
