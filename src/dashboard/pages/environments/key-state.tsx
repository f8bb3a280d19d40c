import type { Key } from "../../../gen/latchkey/v1/environment_pb.ts";
import { Badge } from "../../components/badge.tsx";
import { Time } from "../../components/time.tsx";
import { msOf, now } from "../../data/format.ts";

/** Whether a key works now, in a word. */
export function KeyState({ of: { expiresAt, declared } }: { readonly of: Key }) {
  const ends = msOf(expiresAt);
  if (ends !== undefined && ends <= now.value) return <Badge tone="bad">Expired</Badge>;
  if (ends !== undefined) {
    return (
      <Badge tone="warn">
        Ends <Time at={ends} />
      </Badge>
    );
  }
  return declared ? <Badge tone="info">Configuration</Badge> : <Badge tone="good">Active</Badge>;
}
