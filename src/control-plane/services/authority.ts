import { durationMs } from "@bufbuild/protobuf/wkt";
import type { ServiceImpl } from "@connectrpc/connect";
import { defaultAuthorityOverlapMs } from "../../broker/authority/authorities.ts";
import type { Broker } from "../../broker/broker.ts";
import { requireKeyItself } from "../../broker/setup/caller.ts";
import { AuthorityService } from "../../gen/latchkey/v1/authority_pb.ts";
import { callerOf } from "../server/context.ts";

export { AuthorityService };

export const authorityService = ({ authorities }: Broker, proxyAddress = ""): ServiceImpl<typeof AuthorityService> => ({
  async getAuthority() {
    return { certificates: [...(await authorities.certificates())], proxyAddress };
  },
  async rotateAuthority({ overlap }, context) {
    const caller = callerOf(context);
    requireKeyItself(caller, "the certificate authority is not rotated");
    const overlapMs = overlap === undefined ? defaultAuthorityOverlapMs : durationMs(overlap);
    return { certificates: [...(await authorities.rotate({ overlapMs }, caller.keyId))] };
  },
});
