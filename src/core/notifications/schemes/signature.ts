import { createHmac } from "node:crypto";
import { durationMs } from "@bufbuild/protobuf/wkt";
import type { SignatureRules } from "../../../gen/latchkey/v1/provider_pb.ts";
import { instantOf } from "../instant.ts";
import { type Proof, proven, unproven } from "./scheme.ts";

interface SignatureInput {
  readonly hash: string;
  readonly key: Uint8Array;
  readonly content: readonly Uint8Array[];
}

export function signed({ hash: of, key, content }: SignatureInput): Buffer {
  const made = createHmac(of || "sha256", key);
  for (const one of content) made.update(one);
  return made.digest();
}

/** More parts than any provider puts in one field. */
export const maxParts = 32;

interface SignatureTiming {
  readonly timestamp: string;
  readonly unit: string;
  /** Undefined: the age is not checked. */
  readonly toleranceMs: number | undefined;
  readonly nowMs: number;
}

/** Limits the age of a signature, since an old one may have been intercepted. */
export function inTime({ timestamp, unit, toleranceMs: most, nowMs }: SignatureTiming): Proof {
  if (most === undefined) return proven;
  const at = instantOf(timestamp, unit);
  if (at === undefined || nowMs - at > most) return unproven("too_old");
  return at - nowMs > most ? unproven("from_the_future") : proven;
}

/** Returns the allowed age of a signature; undefined: any age. */
export const toleranceMs = ({ tolerance }: SignatureRules): number | undefined =>
  tolerance === undefined ? undefined : durationMs(tolerance);
