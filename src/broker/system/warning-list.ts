import type { MessageInitShape } from "@bufbuild/protobuf";
import type {
  Warning_Severity as Severity,
  Warning_Subject as Subject,
  WarningSchema,
} from "../../gen/latchkey/v1/system_pb.ts";

/** A warning to show. */
export interface FoundWarning extends Omit<MessageInitShape<typeof WarningSchema>, "$typeName"> {
  readonly code: string;
  readonly severity: Severity;
  readonly subject: Subject;
  readonly message: string;
}

/** Limits the warnings of one answer. */
const mostWarnings = 1_000;

/** Sorts warnings by urgency, environment and name. */
export function inOrder(found: readonly FoundWarning[]): {
  readonly warnings: FoundWarning[];
  readonly truncated: boolean;
} {
  const placeOf = ({ environment = "", subject, name = "", code }: FoundWarning) =>
    [environment, String(subject).padStart(3, "0"), name, code].join("\0");
  const sorted = found.toSorted((a, b) => a.severity - b.severity || (placeOf(a) < placeOf(b) ? -1 : 1));
  return { warnings: sorted.slice(0, mostWarnings), truncated: sorted.length > mostWarnings };
}

const dayMs = 86_400_000;

/** Formats an age for a sentence: `3 days`. */
export function daysText(ms: number): string {
  const days = Math.max(1, Math.floor(ms / dayMs));
  return days === 1 ? "1 day" : `${days} days`;
}
