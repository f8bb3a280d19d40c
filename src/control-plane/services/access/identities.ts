import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import type { ServiceImpl } from "@connectrpc/connect";
import { Fault } from "../../../base/fault.ts";
import type { Broker } from "../../../broker/broker.ts";
import { IdentityService } from "../../../gen/latchkey/v1/identity_pb.ts";

export { IdentityService };

export const identityService = ({ identities }: Broker): ServiceImpl<typeof IdentityService> => ({
  async testToken({ token }) {
    try {
      const { identity, endsAtMs, rule, grant } = await identities.explain(token.trim());
      const endsAt = timestampFromMs(Math.min(endsAtMs, latestMs));
      if (rule === undefined || grant === undefined) {
        return { mistake: `no rule of \`identities.rules\` allows ${identity.name}`, identity, endsAt };
      }
      const { environment = "", scopes, limits } = grant;
      return { identity, endsAt, rule, environment, scopes: [...scopes], ...(limits && { limits }) };
    } catch (error) {
      // An answer with 401 would be about the caller's own key.
      if (error instanceof Fault && error.code === "identity_refused") return { mistake: error.message };
      throw error;
    }
  },
});

/** The end of the year 9999, the latest time of a Timestamp. */
const latestMs = 253_402_300_799_000;
