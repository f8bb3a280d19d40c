import { timestampMs } from "@bufbuild/protobuf/wkt";
import type { World } from "../base/world.ts";
import type { AuthorityCertificate } from "../gen/latchkey/v1/authority_pb.ts";
import type { EdgeAuthorities } from "../gen/latchkey/v1/edge_pb.ts";

/** The certificates of the brokers' authority, which programs must trust. They are public, and kept without brokers. */
export interface AuthorityMemory {
  /** The one that signs now, then the one that will sign next. Empty: no broker has said. */
  certificates(): readonly AuthorityCertificate[];
  apply(message: EdgeAuthorities): void;
  /** Calls the function when brokers say something new. */
  listen(onChange: () => void): void;
}

export function createAuthorityMemory({ now }: Pick<World, "now">): AuthorityMemory {
  let held: readonly AuthorityCertificate[] = [];
  const listeners: (() => void)[] = [];
  return {
    certificates: () =>
      held.filter(
        ({ signsUntil }, at) => at === held.length - 1 || signsUntil === undefined || timestampMs(signsUntil) > now(),
      ),
    apply({ certificates }) {
      const isSame = certificates.length === held.length && certificates.every((one, at) => isEqual(one, held[at]));
      held = certificates;
      if (!isSame) for (const tell of listeners) tell();
    },
    listen: (onChange) => void listeners.push(onChange),
  };
}

const isEqual = (one: AuthorityCertificate, other: AuthorityCertificate | undefined): boolean =>
  one.id === other?.id && one.signsUntil?.seconds === other.signsUntil?.seconds;
